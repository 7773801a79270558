package selection;

import static net.bytebuddy.matcher.ElementMatchers.named;

import com.yammer.metrics.core.Meter;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import kafka.integration.KafkaServerTestHarness;
import kafka.network.SocketServer;
import kafka.server.BaseRequestTest;
import kafka.test.ClusterInstance;
import kafka.zk.EmbeddedZookeeper;
import kafka.zk.KafkaZkClient;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.dynamic.loading.ClassReloadingStrategy;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import org.apache.kafka.common.Uuid;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.mockito.MockMakers;
import org.mockito.Mockito;
import scala.collection.Iterable;
import scala.collection.Seq;
import scala.collection.immutable.Map$;
import scala.collection.mutable.ArrayBuffer;
import scala.collection.mutable.Buffer;

/**
 * Where Kafka's tests meet our node before they have begun, or look for Kafka's controller in their own process:
 * docs/kafka-tests.md says what they find instead. The tests themselves stay as they are.
 */
public final class OurNode implements BeforeAllCallback {
    /** Ask the only broker, which would be the controller, about its own logs. */
    private static final Set<String> OF_BROKERS = Set.of(
        "kafka.server.AlterReplicaLogDirsRequestTest",
        "kafka.server.DescribeLogDirsRequestTest",
        "kafka.server.StopReplicaRequestTest");
    /** Compare all nodes that clients are told of with the addresses of the servers. */
    private static final Set<String> OF_ALL_ADDRESSES = Set.of(
        "kafka.api.PlaintextAdminIntegrationTest.testDescribeCluster",
        "kafka.api.PlaintextAdminIntegrationTest.testListNodes");

    private static boolean isDone;

    @Override
    public void beforeAll(ExtensionContext context) {
        if (!isDone && System.getProperty("controller.is-ours") != null) {
            isDone = true;
            ByteBuddyAgent.install();
            redirect(
                "kafka.server.BaseRequestTest",
                Map.of("controllerSocketServer", Address.class, "connect", AsPrincipal.Connection.class));
            redirect(
                "kafka.integration.KafkaServerTestHarness",
                Map.of(
                    "getTopicIds", TopicIds.class,
                    "getTopicNames", TopicNames.class,
                    "servers", Servers.class,
                    "brokers", Servers.class,
                    "bootstrapServers", Addresses.class,
                    "brokerList", Addresses.class));
            redirect("kafka.utils.TestUtils$", Map.of("waitUntilBrokerMetadataIsPropagated", Propagation.class));
            redirect(
                "kafka.test.junit.ZkClusterInvocationContext$ZkClusterInstance",
                Map.of("waitForReadyBrokers", Count.class, "anyControllerSocketServer", Address.class));
            redirect("kafka.integration.UncleanLeaderElectionTest", Map.of("getGauge", UncleanElections.class));
            redirect(
                "kafka.controller.ControllerStats",
                Map.of("uncleanLeaderElectionRate", UncleanElectionsInMemory.class));
            redirect("kafka.server.BrokerEpochIntegrationTest", Map.of("getController", Controller.class));
            redirect(
                "kafka.zk.KafkaZkClient",
                Map.of(
                    "getAllBrokersInCluster", StartedBrokers.class,
                    "getAllBrokerAndEpochsInCluster", StartedBrokers.class));
            redirect("kafka.server.ZkMetadataCache", Map.of("getAliveBrokers", StartedBrokers.class));
            redirect("kafka.server.metadata.ZkMetadataCache", Map.of("getAliveBrokers", StartedBrokers.class));
        }
    }

    /** Not every version has every type. */
    private static void redirect(String name, Map<String, Class<?>> methods) {
        ClassLoader loader = OurNode.class.getClassLoader();
        Class<?> type;
        try {
            type = Class.forName(name, false, loader);
        } catch (ClassNotFoundException e) {
            return;
        }
        DynamicType.Builder<?> changed = new ByteBuddy().redefine(type);
        for (Map.Entry<String, Class<?>> each : methods.entrySet()) {
            changed = changed.visit(Advice.to(each.getValue()).on(named(each.getKey())));
        }
        changed.make().load(loader, ClassReloadingStrategy.fromInstalledAgent());
    }

    /** Of a server, tests ask only for its port. */
    public static SocketServer ours() {
        int port = Integer.getInteger("controller.port");
        return Mockito.mock(
            SocketServer.class,
            Mockito.withSettings().mockMaker(MockMakers.SUBCLASS).stubOnly().defaultAnswer(
                call -> call.getMethod().getName().equals("boundPort") ? port : Mockito.RETURNS_DEFAULTS.answer(call)));
    }

    /** Where a test sends what only a broker can answer, or else what is for the controller. */
    public static SocketServer destination(Object test) {
        boolean isForBroker = OF_BROKERS.contains(CurrentTest.className());
        return isForBroker ? ((BaseRequestTest) test).anySocketServer() : ours();
    }

    /** Instead of looking for a broker that is the controller. */
    public static final class Address {
        private Address() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static SocketServer enter(@Advice.This Object test) {
            return destination(test);
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter SocketServer ours,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) SocketServer returned) {
            returned = ours;
        }
    }

    /** What ZooKeeper has. */
    public static scala.collection.immutable.Map<String, Uuid> topicIds(KafkaServerTestHarness harness) {
        KafkaZkClient zookeeper = harness.zkClient();
        scala.collection.immutable.Map<String, Uuid> ids = Map$.MODULE$.empty();
        var all = zookeeper.getTopicIdsForTopics(zookeeper.getAllTopicsInCluster(false)).iterator();
        while (all.hasNext()) {
            var each = all.next();
            ids = ids.updated(each._1(), each._2());
        }
        return ids;
    }

    /** What ZooKeeper has, the other way round. */
    public static scala.collection.immutable.Map<Uuid, String> topicNames(KafkaServerTestHarness harness) {
        scala.collection.immutable.Map<Uuid, String> names = Map$.MODULE$.empty();
        var all = topicIds(harness).iterator();
        while (all.hasNext()) {
            var each = all.next();
            names = names.updated(each._2(), each._1());
        }
        return names;
    }

    /** Instead of asking the broker that is the controller. */
    public static final class TopicIds {
        private TopicIds() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static scala.collection.immutable.Map<String, Uuid> enter(@Advice.This Object harness) {
            return topicIds((KafkaServerTestHarness) harness);
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter scala.collection.immutable.Map<String, Uuid> found,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object returned) {
            returned = found;
        }
    }

    /** Instead of asking the broker that is the controller. */
    public static final class TopicNames {
        private TopicNames() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static scala.collection.immutable.Map<Uuid, String> enter(@Advice.This Object harness) {
            return topicNames((KafkaServerTestHarness) harness);
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter scala.collection.immutable.Map<Uuid, String> found,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object returned) {
            returned = found;
        }
    }

    /** Until all brokers and our node are there. */
    public static void awaitBrokers(ClusterInstance cluster) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (EmbeddedZookeeper.nodes() != cluster.config().numBrokers() + 1) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not all brokers are there");
            }
            Thread.sleep(50);
        }
    }

    /** Instead of waiting for as many nodes as there are brokers. */
    public static final class Count {
        private Count() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean enter(@Advice.This Object cluster) throws InterruptedException {
            awaitBrokers((ClusterInstance) cluster);
            return true;
        }
    }

    /** Until each broker knows all of them and our node. */
    public static void awaitPropagation(Seq<?> brokers) throws ReflectiveOperationException, InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        for (var each = brokers.iterator(); each.hasNext();) {
            Object broker = each.next();
            while (alive(broker) != brokers.size() + 1) {
                if (System.nanoTime() > deadline) {
                    throw new AssertionError("not all brokers know each other");
                }
                Thread.sleep(20);
            }
        }
    }

    /** By name, because the types have changed between versions. */
    private static int alive(Object broker) throws ReflectiveOperationException {
        Object cache = broker.getClass().getMethod("metadataCache").invoke(broker);
        return ((Iterable<?>) cache.getClass().getMethod("getAliveBrokers").invoke(cache)).size();
    }

    /** Instead of waiting until brokers know nobody but brokers. */
    public static final class Propagation {
        private Propagation() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean enter(@Advice.Argument(0) Object brokers)
                throws ReflectiveOperationException, InterruptedException {
            awaitPropagation((Seq<?>) brokers);
            return true;
        }
    }

    /** Servers that a test is told of may be one more. */
    public static final class Servers {
        private Servers() {
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.This Object harness,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Buffer<Object> returned)
                throws ReflectiveOperationException {
            returned = StandIn.with(returned, harness);
        }
    }

    /** So may addresses. */
    public static String withOurs(String addresses) {
        return OF_ALL_ADDRESSES.contains(CurrentTest.name())
            ? addresses + ",localhost:" + Integer.getInteger("controller.port")
            : addresses;
    }

    /** The addresses of brokers and, in some tests, ours. */
    public static final class Addresses {
        private Addresses() {
        }

        @Advice.OnMethodExit
        public static void exit(@Advice.Return(readOnly = false) String returned) {
            returned = withOurs(returned);
        }
    }

    /** Instead of looking among the brokers for the one that is in charge. */
    public static final class Controller {
        private Controller() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static Object enter(@Advice.This Object harness) throws ReflectiveOperationException {
            return StandIn.create(harness, new ArrayBuffer<>());
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter Object standIn,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object returned) {
            returned = standIn;
        }
    }

    /** How many leaders our controller has elected that were not in sync, as the meter of Kafka's would count them. */
    public static Meter uncleanElections() {
        return Mockito.mock(
            Meter.class,
            Mockito.withSettings().mockMaker(MockMakers.SUBCLASS).stubOnly().defaultAnswer(
                call -> EmbeddedZookeeper.figure("kafka_zk_controller_unclean_elections_total")));
    }

    /** The same where a test looks for it in a broker's memory. */
    public static Meter uncleanElections(Meter inMemory) {
        return CurrentTest.hasCalled() ? uncleanElections() : inMemory;
    }

    /** Instead of a metric of Kafka's controller. */
    public static final class UncleanElections {
        private UncleanElections() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static Meter enter() {
            return uncleanElections();
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter Meter ours,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object returned) {
            returned = ours;
        }
    }

    /** Instead of the same in the memory of a broker. */
    public static final class UncleanElectionsInMemory {
        private UncleanElectionsInMemory() {
        }

        @Advice.OnMethodExit
        public static void exit(@Advice.Return(readOnly = false) Meter returned) {
            returned = uncleanElections(returned);
        }
    }
}
