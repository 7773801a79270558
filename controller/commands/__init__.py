"""What can an operator type, apart from `reassign`, `demo` and `replay`?"""
