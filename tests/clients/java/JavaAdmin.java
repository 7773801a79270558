// What does Java's AdminClient see? One source for its versions from 2.8 to 4: what they do not share is called by name.

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.PartitionReassignment;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.admin.UserScramCredentialsDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaAdmin {
    private final String bootstrap;
    private final String prefix;
    private final List<Integer> moveTo = new ArrayList<>();
    private final double askForS;
    private final String securityFile;
    private final Admin admin;
    private final Map<String, Callable<Object>> operations = new HashMap<>();

    public static void main(String[] args) throws Exception {
        String plan = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        ExecutorService threads = Executors.newCachedThreadPool();
        JavaAdmin client = new JavaAdmin(plan);
        double timeoutS = Double.parseDouble(first(plan, "\"timeout_s\":\\s*([0-9.]+)"));
        Matcher names = Pattern.compile("\"(\\w+)\"").matcher(first(plan, "\"operations\":\\s*\\[([^\\]]*)"));
        while (names.find()) {
            String name = names.group(1);
            Callable<Object> operation = client.operations.get(name);
            Map<String, Object> line = new TreeMap<>();
            line.put("operation", name);
            if (operation == null) line.put("unsupported", true);
            else line.put("result", outcome(threads.submit(operation), timeoutS));
            System.out.println(json(line));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0); // a thread that hangs must not hold the process
    }

    private static Object outcome(Future<Object> running, double timeoutS) throws InterruptedException {
        try {
            return running.get((long) (timeoutS * 1000), TimeUnit.MILLISECONDS);
        } catch (TimeoutException hangs) {
            running.cancel(true);
            return Map.of("error", String.format("nothing within %.0f s", timeoutS));
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            while (cause instanceof ExecutionException && cause.getCause() != null) cause = cause.getCause();
            return failure(cause);
        }
    }

    private static Map<String, Object> failure(Throwable cause) {
        return Map.of("error", cause.getClass().getSimpleName(), "message", String.valueOf(cause.getMessage()));
    }

    private static String first(String text, String pattern) {
        Matcher found = Pattern.compile(pattern).matcher(text);
        if (!found.find()) throw new IllegalArgumentException("the plan lacks " + pattern);
        return found.group(1);
    }

    private JavaAdmin(String plan) throws IOException {
        bootstrap = first(plan, "\"bootstrap\":\\s*\"([^\"]*)\"");
        prefix = first(plan, "\"prefix\":\\s*\"([^\"]*)\"");
        for (String broker : first(plan, "\"move_to\":\\s*\\[([^\\]]*)").split(",")) moveTo.add(Integer.valueOf(broker.trim()));
        askForS = Double.parseDouble(first(plan, "\"ask_for_s\":\\s*([0-9.]+)"));
        Matcher secured = Pattern.compile("\"file\":\\s*\"([^\"]*)\"").matcher(plan);
        securityFile = secured.find() ? secured.group(1) : "";
        admin = Admin.create(properties());
        operations.put("describe_cluster", this::describeCluster);
        operations.put("create_topic", () -> create(plain(), false));
        operations.put("create_with_configs", () -> create(new NewTopic(named("configs"), 1, (short) 2)
            .configs(Map.of("retention.ms", "3600000", "cleanup.policy", "compact")), false));
        operations.put("create_assigned", () -> create(
            new NewTopic(named("assigned"), Map.of(0, List.of(1, 2), 1, List.of(2, 3))), false));
        operations.put("validate_only", () -> create(new NewTopic(named("imagined"), 1, (short) 2), true));
        operations.put("keep_asking", this::keepAsking);
        operations.put("create_existing", () -> create(plain(), false));
        operations.put("create_with_too_many_replicas", () -> create(new NewTopic(named("crowded"), 1, (short) 9), false));
        operations.put("list_topics", () -> until(this::topics, names -> names.size() == 5));
        operations.put("describe_topic", this::describeTopic);
        operations.put("create_partitions", () -> {
            admin.createPartitions(Map.of(named("plain"), NewPartitions.increaseTo(5))).all().get();
            return Map.of("partitions", until(() -> partitions("plain"), found -> found.size() == 5).size());
        });
        operations.put("create_fewer_partitions", () -> {
            admin.createPartitions(Map.of(named("plain"), NewPartitions.increaseTo(2))).all().get();
            return Map.of("accepted", true);
        });
        operations.put("grow_unknown", () -> {
            admin.createPartitions(Map.of(named("unknown"), NewPartitions.increaseTo(5))).all().get();
            return Map.of("accepted", true);
        });
        operations.put("alter_configs", () -> {
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(configs(), List.of(change))).all().get();
            return Map.of("accepted", true);
        });
        operations.put("describe_configs", () -> until(this::settings, found -> found.get("retention.ms").get(0).equals("7200000")));
        operations.put("reassign", () -> reassign("moving", Optional.of(new NewPartitionReassignment(moveTo))));
        operations.put("list_reassignments", () -> until(this::moves, found -> !found.isEmpty()));
        operations.put("cancel_reassignment", () -> {
            Object cancelled = reassign("moving", Optional.empty());
            return Map.of("cancelled", cancelled, "left", until(this::moves, Map::isEmpty));
        });
        operations.put("cancel_nothing", () -> reassign("moving", Optional.empty()));
        operations.put("reassign_unknown", () -> reassign("unknown", Optional.of(new NewPartitionReassignment(List.of(1, 2)))));
        operations.put("elect_leaders", () -> {
            Object answer = elect("electing");
            return Map.of("answer", answer, "leader",
                until(() -> partitions("electing").get(0).get("leader"), leader -> leader.equals(2)));
        });
        operations.put("elect_again", () -> elect("electing"));
        operations.put("elect_unknown", () -> elect("unknown"));
        operations.put("produce_consume", this::produceConsume);
        operations.put("list_groups", () -> until(this::groups, found -> !found.isEmpty()));
        operations.put("alter_scram", () -> {
            ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(named("user"), info, "secret"))).all().get();
            return Map.of("accepted", true);
        });
        operations.put("describe_scram", this::describeScram);
        operations.put("delete_records", () -> Map.of("low_watermark",
            admin.deleteRecords(Map.of(new TopicPartition(named("plain"), 0), RecordsToDelete.beforeOffset(10)))
                .lowWatermarks().values().iterator().next().get().lowWatermark()));
        operations.put("delete_topic", () -> {
            admin.deleteTopics(List.of(named("configs"))).all().get();
            return Map.of("left", until(this::topics, names -> !names.contains(named("configs"))));
        });
        operations.put("delete_unknown", () -> {
            admin.deleteTopics(List.of(named("unknown"))).all().get();
            return Map.of("accepted", true);
        });
    }

    private Properties properties() throws IOException {
        Properties properties = new Properties();
        if (!securityFile.isEmpty()) {
            try (Reader file = Files.newBufferedReader(Path.of(securityFile))) {
                properties.load(file);
            }
        }
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private String named(String what) {
        return prefix + "-" + what;
    }

    private NewTopic plain() {
        return new NewTopic(named("plain"), 3, (short) 2);
    }

    private ConfigResource configs() {
        return new ConfigResource(ConfigResource.Type.TOPIC, named("configs"));
    }

    private Object describeCluster() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        Node controller = cluster.controller().get();
        Set<Integer> nodes = new TreeSet<>();
        for (Node node : cluster.nodes().get()) nodes.add(node.id());
        if (controller == null) return Map.of("nodes", nodes, "controller", -1);
        String address = controller.host() + ":" + controller.port();
        return Map.of("nodes", nodes, "controller", controller.id(), "controller_address", address);
    }

    private Object create(NewTopic topic, boolean isOnlyChecked) throws Exception {
        CreateTopicsResult created = admin.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(isOnlyChecked));
        created.all().get();
        Config config = created.config(topic.name()).get();
        Map<String, Object> settings = new TreeMap<>();
        for (String name : List.of("retention.ms", "cleanup.policy", "min.insync.replicas")) {
            ConfigEntry entry = config.get(name);
            if (entry == null) settings.put(name, "not told");
            else settings.put(name, Arrays.asList(entry.value(), entry.source().name()));
        }
        return Map.of("accepted", true, "partitions", created.numPartitions(topic.name()).get(),
            "replicas", created.replicationFactor(topic.name()).get(), "settings", settings);
    }

    private Object keepAsking() throws Exception {
        long deadline = System.nanoTime() + (long) (askForS * 1e9);
        while (System.nanoTime() < deadline) {
            Map<String, Object> attempt = new TreeMap<>();
            attempt.put("begun", System.currentTimeMillis());
            attempt.put("error", null);
            try {
                create(new NewTopic(named("imagined"), 1, (short) 2), true);
            } catch (ExecutionException failed) {
                attempt.put("error", String.valueOf(failed.getCause()));
            }
            attempt.put("ended", System.currentTimeMillis());
            System.out.println(json(attempt));
            System.out.flush();
            Thread.sleep(100);
        }
        return Map.of("ended", true);
    }

    private Set<String> topics() throws Exception {
        Set<String> found = new TreeSet<>();
        for (String name : admin.listTopics().names().get()) if (name.startsWith(prefix + "-")) found.add(name);
        return found;
    }

    private List<Map<String, Object>> partitions(String what) throws Exception {
        List<Map<String, Object>> found = new ArrayList<>();
        for (TopicPartitionInfo partition : description(named(what)).partitions()) {
            found.add(Map.of(
                "partition", partition.partition(),
                "leader", partition.leader() == null ? -1 : partition.leader().id(),
                "replicas", ids(partition.replicas()),
                "isr", new TreeSet<>(ids(partition.isr()))));
        }
        return found;
    }

    // 2.8 has all(), 4.0 has allTopicNames(), and no version has both for ever.
    @SuppressWarnings("unchecked")
    private TopicDescription description(String topic) throws Exception {
        DescribeTopicsResult result = admin.describeTopics(List.of(topic));
        Object future;
        try {
            future = DescribeTopicsResult.class.getMethod("allTopicNames").invoke(result);
        } catch (NoSuchMethodException old) {
            future = DescribeTopicsResult.class.getMethod("all").invoke(result);
        }
        return ((KafkaFuture<Map<String, TopicDescription>>) future).get().get(topic);
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        List<Integer> ids = new ArrayList<>();
        for (Node node : nodes) ids.add(node.id());
        return ids;
    }

    private Object describeTopic() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (String what : List.of("plain", "assigned")) {
            found.put(named(what), until(() -> partitions(what), partitions -> {
                for (Map<String, Object> partition : partitions) if (((Set<?>) partition.get("isr")).size() != 2) return false;
                return !partitions.isEmpty();
            }));
        }
        return found;
    }

    private Map<String, List<String>> settings() throws Exception {
        Config config = admin.describeConfigs(List.of(configs())).all().get().get(configs());
        Map<String, List<String>> found = new TreeMap<>();
        for (String name : List.of("retention.ms", "cleanup.policy")) {
            found.put(name, List.of(config.get(name).value(), config.get(name).source().name()));
        }
        return found;
    }

    private TopicPartition moving() {
        return new TopicPartition(named("moving"), 0);
    }

    private Object reassign(String what, Optional<NewPartitionReassignment> target) throws Exception {
        TopicPartition partition = new TopicPartition(named(what), 0);
        admin.alterPartitionReassignments(Map.of(partition, target)).all().get();
        return Map.of("accepted", true);
    }

    private Map<String, Object> moves() throws Exception {
        PartitionReassignment move = admin.listPartitionReassignments(Set.of(moving())).reassignments().get().get(moving());
        if (move == null) return Map.of();
        return Map.of("replicas", move.replicas(), "adding", move.addingReplicas(), "removing", move.removingReplicas());
    }

    private Object elect(String what) throws Exception {
        List<Object> answers = new ArrayList<>();
        Set<TopicPartition> partitions = Set.of(new TopicPartition(named(what), 0));
        for (Optional<Throwable> error : admin.electLeaders(ElectionType.PREFERRED, partitions).partitions().get().values()) {
            answers.add(error.isPresent() ? failure(error.get()) : "elected");
        }
        return answers;
    }

    private Object produceConsume() throws Exception {
        Properties producing = properties();
        producing.put("key.serializer", ByteArraySerializer.class.getName());
        producing.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing)) {
            for (int number = 0; number < 100; number++) {
                byte[] value = ("record-" + number).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(named("plain"), number % 3, null, value));
            }
            producer.flush();
        }
        Properties consuming = properties();
        consuming.put("key.deserializer", ByteArrayDeserializer.class.getName());
        consuming.put("value.deserializer", ByteArrayDeserializer.class.getName());
        consuming.put("group.id", named("group"));
        consuming.put("auto.offset.reset", "earliest");
        Set<String> seen = new HashSet<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consuming)) {
            consumer.subscribe(List.of(named("plain")));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
            while (seen.size() < 100 && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    seen.add(new String(record.value(), StandardCharsets.UTF_8));
                }
            }
            consumer.commitSync();
        }
        return Map.of("consumed", seen.size());
    }

    private Set<String> groups() throws Exception {
        Set<String> found = new TreeSet<>();
        for (ConsumerGroupListing group : admin.listConsumerGroups().all().get()) {
            if (group.groupId().startsWith(prefix + "-")) found.add(group.groupId());
        }
        return found;
    }

    private Object describeScram() throws Exception {
        String user = named("user");
        UserScramCredentialsDescription found = until(
            () -> admin.describeUserScramCredentials(List.of(user)).all().get().get(user), description -> true);
        List<Object> shown = new ArrayList<>();
        for (ScramCredentialInfo info : found.credentialInfos()) shown.add(List.of(info.mechanism().name(), info.iterations()));
        admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))).all().get();
        return Map.of("shown", shown);
    }

    // The answer as soon as it is so; the last one if it never is.
    private static <T> T until(Callable<T> ask, Predicate<T> isSo) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (true) {
            boolean isLast = System.nanoTime() > deadline;
            try {
                T answer = ask.call();
                if (isLast || isSo.test(answer)) return answer;
            } catch (Exception failed) {
                if (isLast) throw failed;
            }
            Thread.sleep(100);
        }
    }

    private static String json(Object value) {
        if (value == null) return "null";
        if (value instanceof Number || value instanceof Boolean) return value.toString();
        List<String> parts = new ArrayList<>();
        if (value instanceof Map) {
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) parts.add(json(entry.getKey().toString()) + ": " + json(entry.getValue()));
            return "{" + String.join(", ", parts) + "}";
        }
        if (value instanceof Collection) {
            for (Object held : (Collection<?>) value) parts.add(json(held));
            return "[" + String.join(", ", parts) + "]";
        }
        StringBuilder text = new StringBuilder("\"");
        for (char letter : value.toString().toCharArray()) {
            if (letter == '"' || letter == '\\') text.append('\\').append(letter);
            else if (letter < ' ') text.append(String.format("\\u%04x", (int) letter));
            else text.append(letter);
        }
        return text.append('"').toString();
    }
}
