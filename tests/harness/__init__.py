"""What the suites share: test objects, bounded processes, the markers in programs."""
