"""Latencies in logarithmic buckets: any percentile to 1 %, and histograms that are merged by adding.

Bucket i holds latencies above GROWTH^(i-1) and up to GROWTH^i microseconds, so any value in it is within 1 % of its
middle (DDSketch: Masson, Rim, Lee, 2019). Pure.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

GROWTH = 1.0202
"""So (GROWTH - 1) / (GROWTH + 1), the error of a bucket's middle, is 1 %."""
BUCKET_MAX = 1_000
"""Everything above it too: some eight minutes."""
_BOUNDS_US = tuple(GROWTH**bucket for bucket in range(BUCKET_MAX))
"""To look up is cheaper than a logarithm, and each produced batch does it."""
THRESHOLDS_MS = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
"""What a service level may ask of latencies: requests above each of these are counted in each window."""


def bucket_of(milliseconds: float) -> int:
    """The bucket of a latency; everything up to a microsecond is in bucket 0."""
    return bisect_left(_BOUNDS_US, milliseconds * 1_000)


THRESHOLD_BUCKETS = tuple(bucket_of(float(one)) for one in THRESHOLDS_MS)
"""Buckets above it count as above the threshold: within 1 %, in the service's favour."""


def middle_us(bucket: int) -> int:
    """The latency that a bucket stands for, in whole microseconds: within 1 % of each one in it, or one microsecond."""
    return round(GROWTH**bucket * 2 / (1 + GROWTH))


def merged(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """The sum of histograms (count by bucket), by bucket."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.items():
            total[bucket] = total.get(bucket, 0) + count
    return dict(sorted(total.items()))


def percentile_us(histogram: Mapping[int, int], per_mille: int) -> int | None:
    """The latency that `per_mille` of 1,000 requests do not exceed, in microseconds; None without requests."""
    total = sum(histogram.values())
    if not total:
        return None
    rank, seen = max(1, -(-total * per_mille // 1_000)), 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= rank:
            return middle_us(bucket)
    return None
