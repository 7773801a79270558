"""How does a Kerberos server run here? As MIT's, with a realm, a port and a `krb5.conf` of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from controller.lab.errors import LabError, ServerFailed
from controller.lab.ports import free_port
from controller.lab.process import Process
from controller.lab.server import Server
from tests.equipment.open_port import is_listening

REALM = "LAB.EXAMPLE"
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))

# Names of hosts are taken as they are written.
_CLIENTS = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""
_SERVER = """\
[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principals
    key_stash_file = {directory}/stash
    acl_file = {directory}/acl
  }}
[logging]
  kdc = STDERR
"""


class KerberosUnavailable(LabError):
    """No Kerberos server is installed."""


class Kdc(Server):
    """The key distribution centre of `REALM` on 127.0.0.1; nothing of it is outside of its directory.

    Shape:
        `krb5_conf` is for its clients: MIT's library reads what the variable `KRB5_CONFIG` names, Java what the
        property `java.security.krb5.conf` names.
    """

    def __init__(self, directory: Path) -> None:
        """Nothing starts yet.

        Raises:
            KerberosUnavailable: MIT's server is not installed.
        """
        self._programs = {name: _find(name) for name in ("kdb5_util", "kadmin.local", "krb5kdc")}
        self.directory = directory
        self.port = free_port()
        self.krb5_conf = directory / "krb5.conf"
        self._env = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(directory / "kdc.conf")}
        argv: list[str | Path] = [self._programs["krb5kdc"], "-n", "-P", directory / "pid"]
        self.process = Process("kdc", argv, directory / "kdc.log", env=self._env)

    def start(self) -> None:
        """Start it and wait until it answers; the first start makes the realm.

        Raises:
            ServerFailed: it did not come up.
        """
        if not self.krb5_conf.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            fields = {"realm": REALM, "port": self.port, "directory": self.directory}
            self.krb5_conf.write_text(_CLIENTS.format(**fields))
            (self.directory / "kdc.conf").write_text(_SERVER.format(**fields))
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of this directory only")
        self.process.start()
        self.process.wait_until(lambda: is_listening(self.port), 30, waiting_for="it listened")

    def stop(self) -> None:
        """End it in good order."""
        self.process.stop()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def keytab(self, principal: str) -> Path:
        """A new principal, such as `ann` or `kafka/localhost`, and the file with its key."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -norandkey -k {path} {principal}")
        return path

    def _run(self, program: str, *args: str) -> None:
        env: Mapping[str, str] = {**os.environ, **self._env}
        argv = [str(self._programs[program]), *args]
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
        if ran.returncode or "while" in ran.stderr:  # kadmin.local ends well whatever its command came to
            raise ServerFailed(f"{program} {args[-1]}: {ran.stdout}{ran.stderr}")


def _find(program: str) -> Path:
    found = shutil.which(program, path=_PATH)
    if found is None:
        raise KerberosUnavailable(
            f"no {program} on this machine (Debian, Ubuntu: apt-get install krb5-kdc krb5-admin-server)"
        )
    return Path(found)
