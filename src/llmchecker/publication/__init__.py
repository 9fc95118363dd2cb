"""What people read: tables, figures, the report, and how all of it was made."""
