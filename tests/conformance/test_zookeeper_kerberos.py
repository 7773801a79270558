"""Does a real ZooKeeper know us by Kerberos, whose server is a real one, too?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.lab.java import SMALL_SERVER
from controller.lab.zookeeper import ZooKeeperServer, ZooKeeperSettings
from controller.settings.security import Secret, ZooKeeperSecurity
from controller.settings.zookeeper import ZooKeeperSettings as Way
from controller.zk import preparation
from controller.zk.answers import TurnedAway
from controller.zk.bridge import Bridge
from controller.zk.rights import Right, granted
from tests.cluster.secured import kerberos_login
from tests.equipment.kdc import Kdc

pytest.importorskip("gssapi", reason="the Python package gssapi is not installed: make kerberos", exc_type=ImportError)


@pytest.fixture
def server(kdc: Kdc, tmp_path: Path) -> Iterator[ZooKeeperServer]:
    file = tmp_path / "server.jaas"
    file.write_text(f"Server {{ {kerberos_login('zookeeper/localhost', kdc.keytab('zookeeper/localhost'))} }};\n")
    java = (f"-Djava.security.auth.login.config={file}", f"-Djava.security.krb5.conf={kdc.krb5_conf}")
    config = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    with ZooKeeperServer(
        tmp_path / "zookeeper", settings=ZooKeeperSettings(java_options=(*SMALL_SERVER, *java), config=config)
    ) as server:
        yield server


def test_what_is_created_belongs_to_a_kerberos_principal(kdc: Kdc, server: ZooKeeperServer) -> None:
    jaas = kerberos_login("kafka", kdc.keytab("kafka"))
    connect = f"localhost:{server.port}/kafka"

    async def story() -> None:
        bridge = Bridge(Way(connect, 10_000, 20_000, security=ZooKeeperSecurity(jaas=Secret(jaas), sets_acl=True)))
        await bridge.start()
        try:
            await preparation.create_parents(bridge)
            found = await granted(bridge, "/config/users")
            assert found is not None
            assert (found.surely, found.anyone, found.others) == (Right(31), Right.NONE, ())
        finally:
            await bridge.stop()

    asyncio.run(story())


def test_who_has_no_ticket_hears_why(kdc: Kdc, server: ZooKeeperServer) -> None:
    keytab = kdc.keytab("kafka")
    for jaas, said in (
        (kerberos_login("nobody", keytab), "localhost refuses the login: no ticket"),
        (
            kerberos_login("kafka", keytab).replace("useKeyTab=true", ""),
            "Kerberos needs useKeyTab=true with keyTab and principal",
        ),
    ):
        bridge = Bridge(Way(f"localhost:{server.port}", 10_000, 20_000, security=ZooKeeperSecurity(jaas=Secret(jaas))))
        with pytest.raises(TurnedAway, match=said):
            asyncio.run(bridge.start())
