"""Every key of the store, and what it holds.  No other module spells one.

    whetstone:run:<id>:<part>       what belongs to one run; the parts are the constants below
    whetstone:run:<id>:plan:<name>  hash: PLAN, ATTEMPT, OUTDATED, and one field a finished stage
    whetstone:run:<id>:plan:jobs    hash: ATTEMPT, and the spec of each job under its content key
    whetstone:<kind>:<hash>         a shared result (an answer, a verdict, ...) under the hash of all that determines it
    whetstone:checkpoint:<hash>     bytes: how far a job that trains is, under the hash of all that determines it
    whetstone:clustering:<hash>     hash: LABELS and ENDS (packed), DESCRIPTIONS, FIGURES
    whetstone:lock:<name>           held by the process that does this work now (tasks/store/client.py)
    whetstone:limit:<what>:<name>   of the requests and tokens a minute (tasks/openai/limits.py)
    whetstone:worker:<node name>    a worker's own report, as JSON; it expires soon after the worker
    whetstone:workers               set: the node names of the workers that report
    whetstone:runs                  set: the ids of all runs
    whetstone:probe                 written to see whether the store accepts writes
    whetstone:paused                hash: a queue or a node name -> since when, seconds of the epoch

A plan's hash is the truth of its work in flight; Celery's messages carry only what finds a field of it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

PREFIX = "whetstone:"

# Parts of a run.
SETTINGS = "settings"  # the Run, as JSON
METADATA = "metadata"  # hash: the fields below, and whatever else is learnt once a run
EXAMPLES = "examples"  # {"training": [...], "validation": [...]}
PROMPTS = "prompts"  # hash: file name -> text of one call
FAILURES = "failures"  # hash: failure_field -> a Failure, as JSON
TRIES = "tries"  # hash: what was tried -> how often that failed, or its worker died
USAGE = "usage"  # hash: counters of calls, tokens and money
CALLS = "calls"  # hash: calls begun and not settled, and what each may cost (tasks/openai/limits.py)
PROVIDERS = "providers"  # set: [role, name], who answered for the reflector and the judge
SERVERS = "servers"  # set: the identities of the target servers that answered, as JSON
FILES = "files"  # hash: file name -> bytes that a worker made for the output folder
NOTIFICATIONS = "notifications"  # list: a result or failure was recorded
SHARED = "shared"  # set: keys of shared results that the run has read or written
HELD = "held"  # set: those of them that may not expire yet
LEASE = "lease"  # hash: OWNER and RENEWALS; there while a process works on the run (tasks/store/ownership.py)
FENCE = "fence"  # hash: SEQUENCE, the number of the latest attempt at any of the run's plans or jobs
HELD_CLUSTERINGS = "held_clusterings"  # set: likewise, of clusterings, which a run needs until its end

# Fields of a run's lease: the process that holds it, as JSON, and how often it was renewed.
OWNER, RENEWALS = "owner", "renewals"
SEQUENCE = "sequence"

# Fields of a run's metadata.
STATUS = "status"  # kind, state and progress of the run, as its driver last published them
CODE, MODEL, CANCELLED = "code", "model", "cancelled"  # by these a worker accepts or discards the run's messages
PROGRESS = "progress"  # how far the long job is that reported last, as JSON with its key
MEASURED = "measured"  # the evaluations of each plan that no search made, as JSON
LIMIT = "stage_limit_s"  # the hard time limit of a stage, in seconds
CLUSTERING = "clustering"  # the hash of the run's clustering
DESCRIPTIONS = "descriptions"  # of the clusters, as JSON; also a field of a clustering
LABELS = "labels"  # a field of a clustering
ENDS = "ends"  # a field of a clustering: the classes of tokens that end a sentence, packed
FIGURES = "figures"  # a field of a clustering: the ClusterFigures, as JSON

JOBS = "jobs"  # the record of what is outside a plan

# Fields of a plan.
PLAN = "plan"  # the Plan, as JSON
OUTDATED = "outdated"  # attempts up to this one record nothing more
ATTEMPT = "attempt"  # the number of the latest attempt at it, of the run's SEQUENCE

RUN, RUNS = PREFIX + "run:", PREFIX + "runs"
TEST_USES = "test_uses"
WORKERS = PREFIX + "workers"
PAUSED = PREFIX + "paused"
PROBE = PREFIX + "probe"


def run_key(run_id: str, part: str) -> str:
    return f"{RUN}{run_id}:{part}"


def plan_key(run_id: str, name: str) -> str:
    return run_key(run_id, f"plan:{name}")


def failure_field(record: str, name: str) -> str:
    """Of a failed task: its record is a plan or JOBS, its name a candidate's index or a job's key."""
    return f"{record}:{name}"


def result_key(key: str) -> str:
    """Of a shared result, whose content key is `<kind>:<hash>`."""
    return PREFIX + key


def clustering_key(clustering: str) -> str:
    return f"{PREFIX}clustering:{clustering}"


def test_uses_key(question: str) -> str:
    """Set: what each choice is known by that a test question has measured, by the question's content hash."""
    return f"{PREFIX}{TEST_USES}:{question}"


def lock_key(name: str) -> str:
    return f"{PREFIX}lock:{name}"


def limit_key(what: str, name: str) -> str:
    return f"{PREFIX}limit:{what}:{name}"


def worker_key(node: str) -> str:
    return f"{PREFIX}worker:{node}"


def content_hash(*parts: Any) -> str:
    """The sha256 of the canonical JSON of all parts: equal content has an equal hash in every process."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
