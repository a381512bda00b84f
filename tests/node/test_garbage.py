import subprocess
import sys

WALKED_MAX = 10_500
PROGRAM = """
import gc
from pipeline_broker.node.garbage import shorten_collections
shorten_collections()
walked = []
gc.callbacks.append(
    lambda phase, about: phase == "start" and walked.append(len(gc.get_objects()))
)
kept = [[number, [number]] for number in range(2_000_000)]
print(len(walked), max(walked))
"""


def test_a_collection_visits_only_objects_newer_than_the_previous_one():
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    collections, walked = map(int, told.split())
    assert collections > 300
    assert walked < WALKED_MAX


START = """
import gc
from pipeline_broker.node.garbage import collect_only_new_objects, shorten_collections
collect_only_new_objects()
walked, found = [], []
def note(phase, about):
    if phase == "start":
        walked.append((about["generation"], len(gc.get_objects(about["generation"]))))
    else:
        found.append(about["collected"])
gc.callbacks.append(note)
kept = []
for number in range(10_000):
    kept.append([number])
    cycle = []
    cycle.append(cycle)
    del cycle
gc.callbacks.remove(note)
shorten_collections()
print({generation for generation, _ in walked}, max(count for _, count in walked), sum(found), len(gc.get_objects()))
"""


def test_a_startup_visits_each_of_its_objects_once_and_keeps_no_garbage():
    told = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True).stdout
    generations, walked, found, left = told.split()
    assert generations == "{0}"
    assert int(walked) < 1_000
    assert int(found) > 9_000
    assert int(left) < 1_000, "the first collection of a serving broker does not visit the objects of the startup"
