"""The results that the input of an application demands, and the comparison with the results that came out."""

import collections

import attrs

BUCKETS = 3


class Violated(AssertionError):
    """Results that contradict the input."""


@attrs.define
class Totals:
    """`totals`: exactly one result for each input record; the results of a bucket count from 1."""

    sums: collections.Counter = attrs.Factory(collections.Counter)
    buckets: dict = attrs.Factory(dict)
    records: int = 0

    def add(self, number):
        """Return the key and value of an input record."""
        key, value = f"k{number % 10}", number % 7
        bucket = f"b{number % 10 % BUCKETS}"
        self.sums[key] += value
        count, total = self.buckets.get(bucket, (0, 0))
        self.buckets[bucket] = (count + 1, total + self.sums[key])
        self.records += 1
        return key, str(value)

    def is_complete(self, results, *, was_killed):
        """Return whether all results are there.

        Args:
            results: of each key, its values in order.
            was_killed: an instance or the broker was killed.

        Raises:
            Violated: a result is missing before another one, is there twice, or has a wrong sum.
        """
        for bucket, values in results.items():
            counts = [int(value.split()[0]) for value in values]
            if counts != list(range(1, len(counts) + 1)):
                wrong = next(index for index, count in enumerate(counts) if count != index + 1)
                raise Violated(f"{bucket} counts {counts[max(wrong - 2, 0) : wrong + 3]}, the result {wrong + 1}")
        found = {bucket: tuple(map(int, values[-1].split())) for bucket, values in results.items()}
        for bucket, (count, total) in found.items():
            wanted = self.buckets[bucket]
            if count > wanted[0] or (count == wanted[0] and total != wanted[1]):
                raise Violated(f"{bucket} has {count, total}, the input demands {wanted}")
        return found == self.buckets


@attrs.define
class WordCounts:
    """`word-count`: the last count of each word; a killed instance may count a word again."""

    words: collections.Counter = attrs.Factory(collections.Counter)
    records: int = 0

    def add(self, number):
        words = [f"w{number % 5}", f"w{number % 3}"]
        self.words.update(words)
        self.records += 1
        return None, " ".join(words)

    def is_complete(self, results, *, was_killed):
        found = {word: int(values[-1]) for word, values in results.items()}
        if not was_killed and any(count > self.words[word] for word, count in found.items()):
            raise Violated(f"{found}, the input demands {self.words}")
        return all(found.get(word, 0) >= count for word, count in self.words.items())


APPLICATIONS = {"totals": Totals, "word-count": WordCounts}
