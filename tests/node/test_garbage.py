import subprocess
import sys

WALKED_MAX = 700_000
PROGRAM = """
import gc
from pipeline_broker.node.garbage import shorten_collections
shorten_collections()
walked = []
gc.callbacks.append(
    lambda phase, about: phase == "start" and about["generation"] == 2 and walked.append(len(gc.get_objects()))
)
kept = [[number, [number]] for number in range(2_000_000)]
print(len(walked), max(walked))
"""


def test_a_full_collection_walks_only_what_came_after_the_one_before():
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    collections, walked = map(int, told.split())
    assert collections > 3
    assert walked < WALKED_MAX
