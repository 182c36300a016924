"""The two servers: one node of Meridian and one PostgreSQL 15, each in a directory of its own, as real processes."""

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# Where Debian keeps PostgreSQL 15's programs.
POSTGRES_BIN = os.environ.get("POSTGRES_BIN", "/usr/lib/postgresql/15/bin")

# Loaded here, because a child that has become another user may not read Python's files.
libc = ctypes.CDLL("libc.so.6")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def end_with_parent():
    """Set in a child before it becomes the server, so that a killed runner leaves no server behind."""
    libc.prctl(1, signal.SIGTERM)


class Server:
    """A server on a free port of the loopback interface. Its superuser is root, which may connect without a password."""

    user = "root"

    def __init__(self):
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="suites-" + self.name + "-")
        self.log = open(os.path.join(self.dir, "log"), "w")
        self.process = None

    def spawn(self, argv, **options):
        self.process = subprocess.Popen(argv, stdout=self.log, stderr=self.log, start_new_session=True, **options)

    def environment(self, database):
        return {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": self.user, "PGDATABASE": database, "PGSSLMODE": "disable"}

    def psql(self, statement, database="postgres"):
        """Runs a statement; returns what it prints, or raises with what the server said."""
        p = subprocess.run(
            ["psql", "-X", "-At", "-v", "ON_ERROR_STOP=1", "-c", statement],
            env={**os.environ, **self.environment(database)},
            capture_output=True,
            text=True,
        )
        if p.returncode:
            raise RuntimeError(self.name + ": " + statement + ": " + p.stderr.strip())
        return p.stdout.strip()

    def wait(self):
        last = None
        for _ in range(150):
            if self.process.poll() is not None:
                break
            try:
                self.psql("select 1")
                return self
            except RuntimeError as e:
                last = e
                time.sleep(0.2)
        self.stop()
        raise RuntimeError("%s does not answer: %s; see %s" % (self.name, last, self.log.name))

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        if self.process and self.alive():
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.log:
            self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Meridian(Server):
    name = "meridian"
    stop_signal = signal.SIGTERM

    def __init__(self, binary):
        super().__init__()
        listen = "127.0.0.1:%d" % free_port()
        self.spawn(
            [binary, "start", "--insecure", "--store", os.path.join(self.dir, "store"), "--listen", listen,
             "--sql", "127.0.0.1:%d" % self.port, "--http", "", "--locality", "region=r1,zone=z1"],
            preexec_fn=end_with_parent,
        )
        for _ in range(50):
            if subprocess.run([binary, "init", "--insecure", "--host", listen], capture_output=True).returncode == 0:
                break
            time.sleep(0.2)
        self.wait()


class PostgreSQL(Server):
    name = "postgresql"
    stop_signal = signal.SIGINT

    def __init__(self):
        super().__init__()
        owner = None
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            owner = pwd.getpwnam(os.environ.get("POSTGRES_USER", "postgres"))
            os.chown(self.dir, owner.pw_uid, owner.pw_gid)
        data = os.path.join(self.dir, "data")

        def become():
            if owner:
                os.setgid(owner.pw_gid)
                os.setuid(owner.pw_uid)
            end_with_parent()

        subprocess.run(
            [os.path.join(POSTGRES_BIN, "initdb"), "-D", data, "-U", self.user, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
            check=True, stdout=self.log, stderr=self.log, preexec_fn=become, cwd="/",
        )
        self.spawn(
            [os.path.join(POSTGRES_BIN, "postgres"), "-D", data, "-p", str(self.port), "-k", "", "-c", "listen_addresses=127.0.0.1",
             "-c", "fsync=off", "-c", "max_connections=200", "-c", "timezone=UTC"],
            preexec_fn=become, cwd="/",
        )
        self.wait()
