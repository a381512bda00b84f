"""The native load client and the replay of recorded events."""
