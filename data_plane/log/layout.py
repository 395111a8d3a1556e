"""Names of the files in a log directory, and what a name says."""

from penstock.contract.ids import TopicId, TopicPartition

TOPICS = "topics"
JOURNAL = "journal"
CHECKPOINT = "checkpoint"
PARTITION_FILE = "partition.json"
EPOCHS_FILE = "epochs"
PRODUCERS_FILE = "producers"
ODOMETER_FILE = "odometer"
SEALS_FILE = "seals"
START_FILE = "start"
SCRUBBED_FILE = "scrubbed"
LOG_SUFFIX = ".log"
STAMPS_SUFFIX = ".stamps"
INDEX_SUFFIX = ".index"
TEMPORARY_SUFFIX = ".tmp"
SET_ASIDE_SUFFIX = ".damaged"
"""Segment files with damage are renamed to this instead of being removed (RL122); nothing reads them again."""
_DIGITS = 20


def partition_directory(where: TopicPartition) -> str:
    """Where a partition rests, relative to the log directory."""
    return f"{TOPICS}/{where.topic_id.hex()}-{where.partition}"


def partition_of(name: str) -> TopicPartition | None:
    """The partition that a directory name below `topics` stands for; None for any other name (a stray, RL53)."""
    topic, dash, number = name.partition("-")
    if not dash or len(topic) != 32 or not number.isascii() or not number.isdigit():
        return None
    try:
        where = TopicPartition(TopicId(bytes.fromhex(topic)), int(number))
    except ValueError:
        return None
    return where if partition_directory(where) == f"{TOPICS}/{name}" else None


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{numbered(base_offset, suffix)}"


def numbered(number: int, suffix: str) -> str:
    """The name of a file that is one of a row; names order as their numbers do."""
    return f"{number:0{_DIGITS}d}{suffix}"


def number_in(name: str, suffix: str) -> int | None:
    """The number in a name that `numbered` gave; None for any other name."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != _DIGITS or not stem.isascii() or not stem.isdigit():
        return None
    return int(stem)


def parent(path: str) -> str:
    """The directory of a file; the log directory itself is the empty path."""
    return path.rpartition("/")[0]
