import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;

/**
 * Kafka's own authorizers of one class over one ZooKeeper: the first denies what no ACL is about, the second allows it.
 * The first one writes, both follow. Reads commands, fields separated by tabs, and answers those that ask something.
 */
public class Authorizers {
    private static final long PATIENCE_MS = 30_000;
    private static final PrintStream answers = System.out;
    private static final List<Authorizer> both = new ArrayList<>();

    /** Arguments: the class, the connect string, the super users. */
    public static void main(String[] arguments) {
        System.setOut(System.err);
        try {
            obey(arguments);
            System.exit(0);
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void obey(String[] arguments) throws Exception {
        for (String allowsEveryone : new String[] {"false", "true"}) {
            Map<String, String> settings = new HashMap<>();
            settings.put("zookeeper.connect", arguments[1]);
            settings.put("zookeeper.session.timeout.ms", "60000");
            settings.put("super.users", arguments[2]);
            settings.put("allow.everyone.if.no.acl.found", allowsEveryone);
            Authorizer authorizer = authorizer(arguments[0]);
            authorizer.configure(settings);
            both.add(authorizer);
        }
        answer("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        List<AclBinding> toCreate = new ArrayList<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "delete":
                    delete(pattern(fields));
                    answer("deleted");
                    break;
                case "create":
                    toCreate.add(new AclBinding(pattern(fields), entry(fields)));
                    break;
                case "created":
                    create(toCreate);
                    toCreate.clear();
                    answer("created");
                    break;
                case "await":
                    await(pattern(fields), fields[4]);
                    break;
                case "wanted":
                    StringBuilder decisions = new StringBuilder();
                    for (Authorizer authorizer : both) {
                        decisions.append(isAllowed(authorizer, fields) ? 'A' : 'D');
                    }
                    answer(decisions.toString());
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
    }

    /** One of the interface that was Kafka's before 2.4 is wrapped, as brokers do it. */
    private static Authorizer authorizer(String className) throws Exception {
        Object found = Class.forName(className).getConstructor().newInstance();
        if (found instanceof Authorizer) {
            return (Authorizer) found;
        }
        Class<?> wrapper = Class.forName("kafka.security.authorizer.AuthorizerWrapper");
        return (Authorizer) wrapper.getConstructors()[0].newInstance(found);
    }

    private static void answer(String text) {
        answers.println(text);
        answers.flush();
    }

    private static ResourcePattern pattern(String[] fields) {
        return new ResourcePattern(ResourceType.valueOf(fields[1]), fields[3], PatternType.valueOf(fields[2]));
    }

    private static AccessControlEntry entry(String[] fields) {
        return new AccessControlEntry(
            fields[4], fields[5], AclOperation.valueOf(fields[6]), AclPermissionType.valueOf(fields[7]));
    }

    private static void create(List<AclBinding> bindings) throws Exception {
        for (CompletionStage<?> stage : both.get(0).createAcls(context("User:admin", "127.0.0.1"), bindings)) {
            org.apache.kafka.server.authorizer.AclCreateResult result =
                (org.apache.kafka.server.authorizer.AclCreateResult) stage.toCompletableFuture().get();
            if (result.exception().isPresent()) {
                throw result.exception().get();
            }
        }
    }

    private static void delete(ResourcePattern pattern) throws Exception {
        AclBindingFilter all = new AclBindingFilter(pattern.toFilter(), AccessControlEntryFilter.ANY);
        for (CompletionStage<?> stage : both.get(0).deleteAcls(context("User:admin", "127.0.0.1"), List.of(all))) {
            stage.toCompletableFuture().get();
        }
    }

    /** Wait until both know the rights from a host, and with them all that were written to the same kind before. */
    private static void await(ResourcePattern pattern, String host) throws Exception {
        AccessControlEntryFilter from =
            new AccessControlEntryFilter(null, host, AclOperation.ANY, AclPermissionType.ANY);
        AclBindingFilter filter = new AclBindingFilter(pattern.toFilter(), from);
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        for (Authorizer authorizer : both) {
            while (!authorizer.acls(filter).iterator().hasNext()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("not followed within " + PATIENCE_MS + " ms: " + pattern);
                }
                Thread.sleep(1);
            }
        }
    }

    private static boolean isAllowed(Authorizer authorizer, String[] fields) throws Exception {
        AuthorizableRequestContext context = context(fields[1], fields[2]);
        AclOperation operation = AclOperation.valueOf(fields[3]);
        ResourceType type = ResourceType.valueOf(fields[4]);
        if (fields.length < 6) {
            // Not there before 2.8.
            Object found = Authorizer.class
                .getMethod("authorizeByResourceType", AuthorizableRequestContext.class, AclOperation.class, ResourceType.class)
                .invoke(authorizer, context, operation, type);
            return found == AuthorizationResult.ALLOWED;
        }
        ResourcePattern resource = new ResourcePattern(type, fields[5], PatternType.LITERAL);
        Action action = new Action(operation, resource, 1, false, false);
        return authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private static AuthorizableRequestContext context(String asking, String host) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(asking);
        InetAddress address = InetAddress.getByName(host);
        return new AuthorizableRequestContext() {
            public String listenerName() { return "PLAINTEXT"; }
            public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
            public KafkaPrincipal principal() { return principal; }
            public InetAddress clientAddress() { return address; }
            public int requestType() { return 3; }
            public int requestVersion() { return 0; }
            public String clientId() { return ""; }
            public int correlationId() { return 0; }
        };
    }
}
