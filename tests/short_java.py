"""How tests start Java: a JVM of some seconds, or of a few minutes, spends more on some things than it gets back."""

SHORT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Options: no optimising compiler, and the code of classes, of which Spark loads ten thousand, is not verified."""
