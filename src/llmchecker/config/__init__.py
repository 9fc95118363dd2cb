"""What a configuration says, checked as a whole before anything runs."""
