"""What can an operator type, but for `reassign`, `demo` and `replay`?"""
