"""What follows from what happened? Every decision of the controller, as pure functions."""
