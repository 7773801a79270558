"""What do operators see: figures, the authorizer's log, the audit trail?"""
