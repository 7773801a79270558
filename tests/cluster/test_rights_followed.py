"""With an AclAuthorizer, do we follow the ACLs that brokers write, and they ours?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from controller.core.settings import AuthorizerSettings
from controller.following.cluster import ClusterFollower
from controller.following.rights import RightsInForce
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk.bridge import Bridge
from zk_layout import catalog
from zk_layout.znodes.acls import (
    AclAddress,
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    change_address,
    changes,
)

PATIENCE_S = 20.0
HOST = "10.0.0.1"
WITH_AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module", params=["2.4.1", "3.9.1"])
def guarded(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """One broker, on which super users may do everything, and others need ACLs."""
    try:
        cluster = LocalCluster(ClusterSettings(version=request.param, broker_ids=(1,), overrides=WITH_AUTHORIZER))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def kafka_acls(cluster: LocalCluster, *args: str) -> str:
    """The output of Kafka's own tool, which asks the broker."""
    said = cluster.tools.run("kafka.admin.AclCommand", "--bootstrap-server", cluster.bootstrap_servers, *args)
    assert said.exit_code == 0, said.output
    return said.stdout


async def _changed(cluster: LocalCluster, changes: list[tuple[tuple[str, ...], ResourcePattern, bool]]) -> None:
    """Change ACLs with the tool, and wait until ann may, or may not, describe the resource."""
    bridge = Bridge(ZooKeeperSettings(cluster.zookeeper_connect))
    follower = ClusterFollower(lambda: bridge, judges=True)
    rights = RightsInForce(follower, AuthorizerSettings())
    await bridge.start()
    following = asyncio.create_task(follower.follow())
    try:
        for args, resource, is_allowed in changes:
            await asyncio.to_thread(kafka_acls, cluster, *args)
            async with asyncio.timeout(PATIENCE_S):
                while rights.authorizer.is_allowed("User:ann", HOST, AclOperation.DESCRIBE, resource) is not is_allowed:
                    await asyncio.sleep(0.05)
    finally:
        following.cancel()
        await bridge.stop()


def test_what_brokers_write_is_followed(guarded: LocalCluster) -> None:
    orders, billing = ResourcePattern(ResourceType.TOPIC, "orders"), ResourcePattern(ResourceType.GROUP, "billing 1")
    of_ann, of_bob = ("--allow-principal", "User:ann"), ("--deny-principal", "User:*")
    named, beginning = ("--topic", "orders"), ("--topic", "or", "--resource-pattern-type", "prefixed")

    asyncio.run(
        _changed(
            guarded,
            [
                (("--add", *of_ann, "--operation", "Write", *named), orders, True),
                (("--add", *of_bob, "--deny-host", HOST, "--operation", "Describe", *beginning), orders, False),
                (("--remove", "--force", *beginning), orders, True),
                (("--add", *of_ann, "--operation", "Read", "--group", "billing 1"), billing, True),
                (("--remove", "--force", *named), orders, False),
            ],
        )
    )


@pytest.mark.parametrize("pattern_type", PatternType)
@pytest.mark.parametrize("resource_type", [ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID])
def test_brokers_follow_what_is_written_here(
    guarded: LocalCluster, resource_type: ResourceType, pattern_type: PatternType
) -> None:
    resource = ResourcePattern(resource_type, f"by-us-{pattern_type.lower()}", pattern_type)
    principal = f"User:{resource_type.lower()}-{pattern_type.lower()}"
    entry = AclEntry(principal, HOST, AclOperation.DESCRIBE, PermissionType.ALLOW)
    with zookeeper_client(guarded.zookeeper_connect) as zookeeper:
        zookeeper.create(AclAddress(resource).path, catalog.encode(Acls((entry,))))
        for change in changes(resource):
            zookeeper.create(change_address(change).path, catalog.encode(change), sequence=True)

    until = time.monotonic() + PATIENCE_S
    while principal not in kafka_acls(guarded, "--list"):
        assert time.monotonic() < until
