package selection;

import java.lang.reflect.Method;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Leaves out what runs without ZooKeeper and, if a method was chosen, all others. Tells of each that is done, and lets
 * none pass under another controller than it should. Speaks to EmbeddedZookeeper through properties, because where
 * Kafka's own is used, there is none to speak to.
 */
public final class ChosenInvocations implements ExecutionCondition, AfterEachCallback {
    private static final Pattern WITHOUT_ZOOKEEPER = Pattern.compile("kraft|Type=Raft", Pattern.CASE_INSENSITIVE);
    private static final String METHODS = System.getProperty("chosen.methods", "");

    @Override
    public void afterEach(ExtensionContext context) {
        System.out.println("test done: " + context.getDisplayName());
        String outOfCharge = System.clearProperty("chosen.out-of-charge");
        if (outOfCharge != null && context.getExecutionException().isEmpty()) {
            throw new AssertionError(outOfCharge);
        }
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        String method = context.getTestMethod().map(Method::getName).orElse("");
        if (!method.isEmpty() && !METHODS.isEmpty() && !method.matches(METHODS)) {
            return ConditionEvaluationResult.disabled("not chosen");
        }
        // The class's own name is not what tells how an invocation runs, so only methods are looked at.
        String invocation = context.getDisplayName().replace(method, "");
        if (!method.isEmpty() && WITHOUT_ZOOKEEPER.matcher(invocation).find()) {
            return ConditionEvaluationResult.disabled("runs without ZooKeeper");
        }
        CurrentTest.is(context.getTestClass().map(Class::getName).orElse(""), method);
        return ConditionEvaluationResult.enabled("chosen");
    }
}
