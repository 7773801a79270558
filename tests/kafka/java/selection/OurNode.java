package selection;

import static net.bytebuddy.matcher.ElementMatchers.named;

import java.util.concurrent.TimeUnit;
import kafka.network.SocketServer;
import kafka.test.ClusterInstance;
import kafka.zk.EmbeddedZookeeper;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.dynamic.loading.ClassReloadingStrategy;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.mockito.MockMakers;
import org.mockito.Mockito;

/**
 * Where Kafka's tests meet our node before they have begun. Those of single requests look for the broker that is the
 * controller, and find our address instead; some count nodes until all brokers are there, and may count one more. The
 * tests themselves stay as they are.
 */
public final class OurNode implements BeforeAllCallback {
    private static boolean isDone;

    @Override
    public void beforeAll(ExtensionContext context) throws ClassNotFoundException {
        if (!isDone && System.getProperty("controller.is-ours") != null) {
            isDone = true;
            ByteBuddyAgent.install();
            redirect("kafka.server.BaseRequestTest", "controllerSocketServer", Address.class);
            try {
                redirect("kafka.test.junit.ZkClusterInvocationContext$ZkClusterInstance", "waitForReadyBrokers", Count.class);
            } catch (ClassNotFoundException e) {
                // Older versions start no brokers in this way.
            }
        }
    }

    private static void redirect(String type, String method, Class<?> to) throws ClassNotFoundException {
        ClassLoader loader = OurNode.class.getClassLoader();
        new ByteBuddy()
            .redefine(Class.forName(type, false, loader))
            .visit(Advice.to(to).on(named(method)))
            .make()
            .load(loader, ClassReloadingStrategy.fromInstalledAgent());
    }

    /** Of a server, tests ask only for its port. */
    public static SocketServer ours() {
        int port = Integer.getInteger("controller.port");
        return Mockito.mock(
            SocketServer.class,
            Mockito.withSettings().mockMaker(MockMakers.SUBCLASS).stubOnly().defaultAnswer(
                call -> call.getMethod().getName().equals("boundPort") ? port : Mockito.RETURNS_DEFAULTS.answer(call)));
    }

    /** Instead of looking for a broker that is the controller. */
    public static final class Address {
        private Address() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static SocketServer enter() {
            return ours();
        }

        @Advice.OnMethodExit
        public static void exit(
                @Advice.Enter SocketServer ours,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) SocketServer returned) {
            returned = ours;
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
}
