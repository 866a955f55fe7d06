"""No module opens a file by itself: what a stranger wrote goes through `privot.opening`."""

from __future__ import annotations

import re
from pathlib import Path

import privot

RAW = re.compile(
    r"np\.load\(|gzip\.(open|GzipFile)|json\.loads?\(|tomllib\.|zipfile\.is_zipfile|ZipFile\((?!.*\"w\")|\.read_(text|bytes)\("
    r"|(?<![\w.])open\(|ParquetFile|torch\.load|pickle\.loads?\(|np\.(fromfile|memmap|loadtxt|genfromtxt)"
)
OWN = {
    "audit/implementation/disk_leftovers.py": "files that the audit made itself",
    "federation/coordination/coordinator.py": "json.loads of what json.dumps just wrote",
    "federation/flower/serverapp.py": "the coordinator's own keys",
    "federation/flower/supernode.py": "the party's own keys",
    "privot_lab/bench/lava_peer.py": "np.load, without pickles, of what the process that started it wrote",
    "privot_lab/bench/partitioned/process_memory.py": "what the system says of processes",
    "privot_lab/bench/tables/long_table_bench.py": "reads what it or a command that it started wrote",
    "privot_lab/bench/own_scores.py": "np.load, without pickles, of what the process that started it wrote",
    "privot_lab/bench/valuation_bench.py": "np.load, without pickles, of what a process that it started wrote",
    "privot_lab/bench/tables/table_bench.py": "np.load, without pickles, of what a process that it started wrote",
    "privot_lab/bench/tables/table_peer.py": "np.load, without pickles, of what the process that started it wrote",
    "privot_lab/bench/tables/table_runs.py": "the steward's own results file, and what a process that it started wrote",
    "privot_lab/bench/tables/table_step.py": "np.load, without pickles, of what a process of the same run wrote",
    "privot_lab/bench/tables/table_summary.py": "json.loads of what json.dumps just wrote",
    "common/files.py": "writes",
    "ledger/anchor.py": "writes",
    "ledger/ledger_key.py": "writes",
    "cli/running/paid_answer.py": "compares two answers of the user's own",
    "release.py": "json.loads of what json.dumps just wrote",
    "synthesis/methods/embedding_method.py": "json.loads of what json.dumps just wrote",
    "synthesis/tabular/table_design.py": "json.loads of what json.dumps just wrote",
    "ledger/ledger.py": "a method of that name",
    "jobs/job.py": "a method of that name",
    "vault/vault_openers.py": "a method of that name",
    "cli/partitioned_input.py": "a method of that name",
    "partitions/kept_sums.py": "pickle.loads of what was sealed under the job's own key",
    "partitions/engines/local_engine.py": "pickle.loads from processes that it started",
    "partitions/engines/local_worker.py": "pickle.loads from the process that started it",
    "plan/measured.py": "a file of the package itself",
    "plan/page.py": "a file of the package itself",
    "privot_lab/studies/study_run.py": "files of the package itself",
    "privot_lab/studies/study_pages.py": "copies a chart that it just drew",
    "synthesis/paid_fit.py": "json.loads of what json.dumps just wrote",
}
"""Where a raw call stands, and why it may."""


def test_every_foreign_file_is_opened_in_one_place() -> None:
    root = Path(privot.__file__).parent
    laboratory = root.parents[1] / "lab" / "src"
    found = set()
    for path in [*root.rglob("*.py"), *laboratory.rglob("*.py")]:
        name = path.relative_to(root if path.is_relative_to(root) else laboratory).as_posix()
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if ">>>" not in line]
        if not name.startswith("opening/") and any(RAW.search(line) for line in lines):
            found.add(name)
    assert found == set(OWN)
