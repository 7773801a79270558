package selection;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import kafka.cluster.Broker;
import kafka.controller.ControllerContext;
import kafka.controller.KafkaController;
import kafka.server.KafkaConfig;
import kafka.server.KafkaServer;
import kafka.zk.EmbeddedZookeeper;
import kafka.zk.KafkaZkClient;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.BrokerState;
import org.mockito.MockMakers;
import org.mockito.Mockito;
import org.mockito.internal.util.Primitives;
import org.mockito.invocation.InvocationOnMock;
import scala.collection.mutable.ArrayBuffer;
import scala.collection.mutable.Buffer;

/**
 * Our node as one of the servers that a test has started: in charge, with its id, rack and address. Of what Kafka's
 * controller has in its memory, it has what ZooKeeper says of topics' ids and of brokers, and nothing else.
 */
public final class StandIn {
    /** Tests that compare all nodes that clients are told of with the servers, or need a server that is in charge. */
    private static final Set<String> WANTED = Set.of(
        "kafka.server.DescribeClusterRequestTest",
        "kafka.server.MetadataRequestTest.testAliveBrokersWithNoTopics",
        "kafka.server.MetadataRequestWithForwardingTest.testAliveBrokersWithNoTopics",
        "kafka.server.UpdateFeaturesTest");
    private static final Set<String> OWN = Set.of("brokerFeatures", "featureCache", "metadataCache", "zkClient");

    private StandIn() {
    }

    /** The servers that a test is told of. */
    public static Buffer<Object> with(Buffer<Object> servers, Object harness) throws ReflectiveOperationException {
        boolean isWanted = WANTED.contains(CurrentTest.className()) || WANTED.contains(CurrentTest.name());
        if (!isWanted || !CurrentTest.hasCalled("kafka.integration.KafkaServerTestHarness")) {
            return servers;
        }
        Buffer<Object> all = new ArrayBuffer<>();
        all.appendAll(servers);
        all.append(create(harness));
        return all;
    }

    /** For a test that has ZooKeeper's client. */
    public static KafkaServer create(Object harness) throws ReflectiveOperationException {
        KafkaZkClient zookeeper = (KafkaZkClient) harness.getClass().getMethod("zkClient").invoke(harness);
        KafkaConfig config = KafkaConfig.fromProps(EmbeddedZookeeper.settings());
        ControllerContext memory = mock(ControllerContext.class, Map.<String, Supplier<Object>>of(
            "topicIds", () -> topicIds(zookeeper),
            "liveOrShuttingDownBrokers", () -> brokers(zookeeper)));
        KafkaController controller = mock(KafkaController.class, Map.<String, Supplier<Object>>of(
            "isActive", () -> true,
            "controllerContext", () -> memory));
        return mock(KafkaServer.class, Map.<String, Supplier<Object>>of(
            "config", () -> config,
            "socketServer", OurNode::ours,
            "kafkaController", () -> controller,
            "clusterId", () -> zookeeper.getClusterId().get()));
    }

    private static scala.collection.mutable.Map<String, Uuid> topicIds(KafkaZkClient zookeeper) {
        scala.collection.mutable.Map<String, Uuid> ids = new scala.collection.mutable.HashMap<>();
        ids.addAll(zookeeper.getTopicIdsForTopics(zookeeper.getAllTopicsInCluster(false)));
        return ids;
    }

    private static scala.collection.mutable.Set<Broker> brokers(KafkaZkClient zookeeper) {
        scala.collection.mutable.Set<Broker> brokers = new scala.collection.mutable.HashSet<>();
        brokers.addAll(OurNode.withoutOurs(zookeeper.getAllBrokersInCluster()));
        return brokers;
    }

    private static <T> T mock(Class<T> type, Map<String, Supplier<Object>> answers) {
        return Mockito.mock(type, Mockito.withSettings().mockMaker(MockMakers.SUBCLASS).stubOnly().defaultAnswer(
            call -> answers.getOrDefault(call.getMethod().getName(), () -> other(call)).get()));
    }

    /** What is done to brokers in between has no effect on our node. */
    private static Object other(InvocationOnMock call) {
        Class<?> type = call.getMethod().getReturnType();
        if (call.getMethod().getName().equals("brokerState")) {
            return type == AtomicReference.class ? new AtomicReference<>(BrokerState.NOT_RUNNING) : BrokerState.NOT_RUNNING;
        }
        boolean isOwn = call.getMock() instanceof KafkaServer && OWN.contains(call.getMethod().getName());
        return isOwn ? mock(type, Map.of()) : Primitives.defaultValue(type);
    }
}
