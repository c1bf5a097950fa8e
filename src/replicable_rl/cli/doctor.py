def doctor_command() -> int:
    """Check."""
    return 0
