"""What holds: values, bounds for the whole model, verdicts and the texts that decide them."""
