CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    problem INTEGER NOT NULL REFERENCES documents,
    algorithm INTEGER NOT NULL REFERENCES documents,
    sampler TEXT,
    shared_seed TEXT NOT NULL,
    sample TEXT NOT NULL,
    levels INTEGER NOT NULL REFERENCES documents,
    digests BLOB NOT NULL,
    history BLOB,
    samples TEXT,
    seconds REAL NOT NULL,
    status INTEGER REFERENCES documents,
    claims INTEGER NOT NULL REFERENCES documents,
    made_with INTEGER NOT NULL REFERENCES documents,
    seal BLOB
);

CREATE UNIQUE INDEX runs_by_key ON runs (substr(key, 1, 16));

CREATE INDEX runs_of_a_family ON runs (problem, algorithm);

CREATE TABLE failures (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    problem INTEGER NOT NULL REFERENCES documents,
    algorithm INTEGER NOT NULL REFERENCES documents,
    sampler TEXT,
    shared_seed TEXT NOT NULL,
    sample TEXT NOT NULL,
    seconds REAL NOT NULL,
    error TEXT NOT NULL,
    made_with INTEGER NOT NULL REFERENCES documents,
    seal BLOB
);

CREATE INDEX failures_of_a_family ON failures (problem, algorithm);

CREATE TABLE IF NOT EXISTS blocks (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    problem INTEGER NOT NULL REFERENCES documents,
    algorithm INTEGER NOT NULL REFERENCES documents,
    sampler TEXT,
    seal BLOB NOT NULL
);

CREATE TABLE contents (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    data BLOB NOT NULL
);

CREATE TABLE audits (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE,
    seal BLOB
);

CREATE TRIGGER finished_runs_never_change BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'finished runs never change'); END;

CREATE TRIGGER finished_runs_are_never_deleted BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'finished runs are never deleted'); END;

CREATE TRIGGER finished_runs_are_never_replaced BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE substr(key, 1, 16) = substr(NEW.key, 1, 16))
OR EXISTS (SELECT 1 FROM runs WHERE id = NEW.id AND NEW.id <> -1) -- -1: none was given
BEGIN SELECT RAISE(IGNORE); END;
