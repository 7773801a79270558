import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.zookeeper.data.Stat;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.util.Either;

/**
 * What Kafka's own decoders of any release read in the bytes of a znode. Each line has a family and bytes in hex; its
 * answer is what was read, as JSON in ASCII with sorted keys, or X where Kafka reads nothing or throws.
 */
public class Decoders {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        StringBuilder all = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            all.append(outcome(fields[0], bytes(fields[1]))).append('\n');
        }
        answers.print(all);
        answers.flush();
        System.exit(0);
    }

    private static String outcome(String family, byte[] data) {
        try {
            StringBuilder json = new StringBuilder();
            write(read(family, data), json);
            return json.toString();
        } catch (NothingRead nothing) {
            return "X";
        } catch (Exception | StackOverflowError failure) {
            return "X";
        }
    }

    private static Object read(String family, byte[] data) throws Exception {
        switch (family) {
            case "topic": return topic(call("kafka.zk.TopicZNode", "decode", "t", data));
            case "state": return state(some(call("kafka.zk.TopicPartitionStateZNode", "decode", data, new Stat())));
            case "config": return new TreeMap<>((Map<?, ?>) call("kafka.zk.ConfigEntityZNode", "decode", data));
            case "broker": return broker(get(call("kafka.zk.BrokerIdZNode", "decode", 1, data), "broker"));
            case "controller": return some(call("kafka.zk.ControllerZNode", "decode", data));
            case "epoch": return call("kafka.zk.ControllerEpochZNode", "decode", data);
            case "legacy": return legacy((Either<?, ?>) call("kafka.zk.ReassignPartitionsZNode", "decode", data));
            case "election": return partitions(call("kafka.zk.PreferredReplicaElectionZNode", "decode", data));
            case "isr": return partitions(call("kafka.zk.IsrChangeNotificationSequenceZNode", "decode", data));
            case "logdir": return some(call("kafka.zk.LogDirEventNotificationSequenceZNode", "decode", data));
            case "feature": return feature(call("kafka.zk.FeatureZNode", "decode", data));
            case "producer": return producer(data);
            case "acl": return acls(get(call("kafka.zk.ResourceZNode", "decode", data, new Stat()), "acls"));
            case "aclchange": return aclChange(call("kafka.zk.ExtendedAclChangeStore", "decode", data));
            case "token": return token(some(call("kafka.zk.DelegationTokenInfoZNode", "decode", data)));
            case "cluster": return call("kafka.zk.ClusterIdZNode", "fromJson", data);
            default: throw new IllegalArgumentException(family);
        }
    }

    private static Object topic(Object read) throws Exception {
        boolean hasId = !(read instanceof scala.collection.Map);
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<?, ?> entry : map(hasId ? get(read, "assignment") : read).entrySet()) {
            Object held = entry.getValue();
            List<Object> lists = List.of(
                list(get(held, "replicas")), list(get(held, "addingReplicas")), list(get(held, "removingReplicas")));
            found.put(String.valueOf(((TopicPartition) entry.getKey()).partition()), lists);
        }
        Option<?> id = hasId ? (Option<?>) get(read, "topicId") : Option.empty();
        return Arrays.asList(found, id.isEmpty() ? null : id.get().toString());
    }

    private static Object state(Object read) throws Exception {
        Object state = get(read, "leaderAndIsr");
        return List.of(get(state, "leader"), get(state, "leaderEpoch"), list(get(state, "isr")),
            get(read, "controllerEpoch"));
    }

    private static Object broker(Object broker) throws Exception {
        List<Object> endpoints = new ArrayList<>();
        for (Object each : list(get(broker, "endPoints"))) {
            endpoints.add(Arrays.asList(get(get(each, "listenerName"), "value"), get(each, "host"), get(each, "port"),
                get(get(each, "securityProtocol"), "name")));
        }
        Option<?> rack = (Option<?>) get(broker, "rack");
        return Arrays.asList(endpoints, rack.isEmpty() ? null : rack.get());
    }

    private static Object legacy(Either<?, ?> read) throws Exception {
        if (read.isLeft()) {
            throw new NothingRead();
        }
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<?, ?> entry : map(read.toOption().get()).entrySet()) {
            List<Object> replicas = new ArrayList<>();
            for (Object replica : list(entry.getValue())) {
                replicas.add((Integer) replica);
            }
            found.put(entry.getKey().toString(), replicas);
        }
        return found;
    }

    private static Object partitions(Object read) {
        Collection<String> found = new TreeSet<>();
        for (Object at : CollectionConverters.asJava((scala.collection.Iterable<?>) read)) {
            found.add(at.toString());
        }
        return found;
    }

    private static Object feature(Object read) throws Exception {
        Map<String, Object> levels = new TreeMap<>();
        for (Map.Entry<?, ?> entry : map(get(read, "features")).entrySet()) {
            levels.put((String) entry.getKey(), entry.getValue() instanceof Short ? entry.getValue() : 0);
        }
        return List.of(get(get(read, "status"), "id"), levels);
    }

    private static Object producer(byte[] data) throws Exception {
        Object read;
        try {
            read = call("kafka.zk.ProducerIdBlockZNode", "parseProducerIdBlockData", data);
        } catch (NoSuchMethodException old) {
            read = call("kafka.coordinator.transaction.ProducerIdManager", "parseProducerIdBlockData", data);
            return List.of(get(read, "brokerId"), get(read, "blockStartId"), get(read, "blockEndId"));
        }
        return List.of(get(read, "assignedBrokerId"), get(read, "firstProducerId"), get(read, "lastProducerId"));
    }

    private static Object acls(Object read) throws Exception {
        Collection<String> found = new TreeSet<>();
        for (Object each : CollectionConverters.asJava((scala.collection.Set<?>) read)) {
            if (each instanceof AccessControlEntry) {
                AccessControlEntry entry = (AccessControlEntry) each;
                found.add(entry.principal() + "\t" + entry.host() + "\t" + entry.operation() + "\t"
                    + entry.permissionType());
            } else {
                Object operation = get(get(each, "operation"), "toJava"), permission = get(get(each, "permissionType"), "toJava");
                found.add(get(each, "principal") + "\t" + get(each, "host") + "\t" + operation + "\t" + permission);
            }
        }
        return found;
    }

    private static Object aclChange(Object read) throws Exception {
        ResourcePattern pattern = read instanceof ResourcePattern
            ? (ResourcePattern) read : (ResourcePattern) get(read, "toPattern");
        return List.of(pattern.resourceType().name(), pattern.name(), pattern.patternType().name());
    }

    private static Object token(Object read) throws Exception {
        return List.of(get(read, "tokenId"), get(read, "ownerAsString"), get(read, "expiryTimestamp"),
            get(read, "maxTimestamp"));
    }

    // ---- reflection: the releases have the same names, in other types ------------------------------------------

    private static final class NothingRead extends RuntimeException {
    }

    private static Object call(String className, String name, Object... arguments) throws Exception {
        Class<?> found;
        try {
            found = Class.forName(className);
        } catch (ClassNotFoundException unknown) {
            throw new NoSuchMethodException(className);
        }
        for (Method method : found.getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                try {
                    return method.invoke(null, arguments);
                } catch (InvocationTargetException thrown) {
                    throw new NothingRead();
                }
            }
        }
        throw new NoSuchMethodException(className + "." + name);
    }

    private static Object get(Object of, String name) throws Exception {
        Method method;
        try {
            method = of.getClass().getMethod(name);
        } catch (NoSuchMethodException isField) {
            return of.getClass().getField(name).get(of);
        }
        method.setAccessible(true);
        return method.invoke(of);
    }

    private static Object some(Object option) {
        if (((Option<?>) option).isEmpty()) {
            throw new NothingRead();
        }
        return ((Option<?>) option).get();
    }

    private static Map<?, ?> map(Object scala) {
        return CollectionConverters.asJava((scala.collection.Map<?, ?>) scala);
    }

    private static List<?> list(Object scala) {
        return scala instanceof List ? (List<?>) scala : CollectionConverters.asJava((scala.collection.Seq<?>) scala);
    }

    // ---- the form of an answer -----------------------------------------------------------------------------------

    private static void write(Object value, StringBuilder json) {
        if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : new TreeMap<Object, Object>((Map<?, ?>) value).entrySet()) {
                json.append(before);
                write(entry.getKey(), json);
                json.append(':');
                write(entry.getValue(), json);
                before = ',';
            }
            json.append(before == '{' ? "{}" : "}");
        } else if (value instanceof Collection) {
            char before = '[';
            for (Object item : (Collection<?>) value) {
                json.append(before);
                write(item, json);
                before = ',';
            }
            json.append(before == '[' ? "[]" : "]");
        } else if (value == null || value instanceof Number) {
            json.append(value);
        } else {
            json.append('"');
            for (char each : value.toString().toCharArray()) {
                boolean isPlain = each >= 32 && each < 127 && each != '"' && each != '\\';
                json.append(isPlain ? String.valueOf(each) : String.format("\\u%04x", (int) each));
            }
            json.append('"');
        }
    }

    private static byte[] bytes(String hex) {
        byte[] data = new byte[hex.length() / 2];
        for (int at = 0; at < data.length; at++) {
            data[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return data;
    }
}
