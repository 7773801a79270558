"""What is measured, and how does Prometheus read it?"""
