package selection;

import kafka.zk.EmbeddedZookeeper;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import scala.Product;
import scala.Tuple2;
import scala.collection.IterableOps;

/** A test that looks for all brokers itself, in ZooKeeper or in a broker's memory, finds those that it has started. */
public final class StartedBrokers {
    private StartedBrokers() {
    }

    @Advice.OnMethodExit
    public static void exit(@Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object returned) {
        returned = of(returned);
    }

    /** Of brokers, or of pairs of a broker and something; all of them if not a test has asked. */
    public static Object of(Object all) {
        return CurrentTest.hasCalled() ? ((IterableOps<?, ?, ?>) all).filterNot(StartedBrokers::isOurs) : all;
    }

    private static Object isOurs(Object broker) {
        Object alone = broker instanceof Tuple2 ? ((Tuple2<?, ?>) broker)._1() : broker;
        return id(alone).toString().equals(EmbeddedZookeeper.settings().getProperty("broker.id"));
    }

    /** A method of a class in Scala, or a field of one in Java. */
    private static Object id(Object broker) {
        try {
            return broker instanceof Product ? broker.getClass().getMethod("id").invoke(broker)
                : broker.getClass().getField("id").get(broker);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
