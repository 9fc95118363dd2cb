"""Tables, figures, the HTML report, and the provenance of results."""
