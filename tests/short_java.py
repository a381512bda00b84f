"""Java options for short-lived JVMs, which do not earn back the cost of some optimizations."""

SHORT_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
"""Options: no optimising compiler, and the code of classes, of which Spark loads ten thousand, is not verified.
A process is started without another one that starts it: Hadoop has a chmod for each file and folder that it writes.
"""
SHORT_JAVAC = ("javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none")
