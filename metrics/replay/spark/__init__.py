"""What needs Spark?"""
