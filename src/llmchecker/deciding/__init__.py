"""Answers that decide: trees refined where it pays, and estimates of what they leave open."""
