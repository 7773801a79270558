"""What is the next step of a topic, put together from what all duties decide about it?"""
