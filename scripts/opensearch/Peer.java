// Runs one OpenSearch node in this process, with its data under the folder given first and HTTP on
// the port given second, until it is killed. It installs nothing and sets nothing else.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import org.apache.lucene.analysis.Analyzer;
import org.opensearch.Version;
import org.opensearch.analysis.common.CommonAnalysisModulePlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.index.analysis.AnalyzerProvider;
import org.opensearch.index.analysis.PreBuiltAnalyzerProviderFactory;
import org.opensearch.index.analysis.PreConfiguredTokenizer;
import org.opensearch.index.analysis.TokenizerFactory;
import org.opensearch.indices.analysis.AnalysisModule.AnalysisProvider;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessModulePlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.plugins.PluginInfo;
import org.opensearch.script.expression.ExpressionModulePlugin;
import org.opensearch.transport.Netty4ModulePlugin;

public final class Peer extends Node {
    private static final List<Class<? extends Plugin>> MODULES = List.of(
        Netty4ModulePlugin.class, Analysis.class,
        ExpressionModulePlugin.class, PainlessModulePlugin.class);

    // The Java that runs it has no dictionary of Thai, and OpenSearch makes every analyzer with every index.
    public static final class Analysis extends CommonAnalysisModulePlugin {
        @Override
        public List<PreConfiguredTokenizer> getPreConfiguredTokenizers() {
            return without(super.getPreConfiguredTokenizers(), PreConfiguredTokenizer::getName);
        }

        @Override
        public List<PreBuiltAnalyzerProviderFactory> getPreBuiltAnalyzerProviderFactories() {
            return without(
                super.getPreBuiltAnalyzerProviderFactories(),
                PreBuiltAnalyzerProviderFactory::getName);
        }

        @Override
        public Map<String, AnalysisProvider<TokenizerFactory>> getTokenizers() {
            return without(super.getTokenizers());
        }

        @Override
        public Map<String, AnalysisProvider<AnalyzerProvider<? extends Analyzer>>> getAnalyzers() {
            return without(super.getAnalyzers());
        }

        private static <T> Map<String, T> without(Map<String, T> all) {
            Map<String, T> left = new HashMap<>(all);
            left.remove("thai");
            return left;
        }

        private static <T> List<T> without(List<T> all, Function<T, String> name) {
            return all.stream().filter(it -> !name.apply(it).equals("thai")).toList();
        }
    }

    private Peer(Environment environment) {
        super(environment, MODULES.stream().map(Peer::module).toList(), false);
    }

    private static PluginInfo module(Class<? extends Plugin> module) {
        String name = module.getName();
        String java = Integer.toString(Runtime.version().feature());
        return new PluginInfo(
            name, "a module", "NA", Version.CURRENT, java, name, null, List.of(), false);
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]).toAbsolutePath();
        Files.createDirectories(home.resolve("config"));
        Settings settings = Settings.builder()
            .put("path.home", home.toString())
            .put("cluster.name", "peer")
            .put("node.name", "peer")
            .put("discovery.type", "single-node")
            .put("http.port", arguments[1])
            .put("transport.port", arguments.length > 2 ? arguments[2] : "0")
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("node.processors", Runtime.getRuntime().availableProcessors())
            .build();
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings, Collections.emptyMap(), home.resolve("config"), () -> "peer");
        Peer node = new Peer(environment);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (java.io.IOException error) {
                System.err.println(error);
            }
        }));
        node.start();
        System.out.println("ready");
        new CountDownLatch(1).await();
    }
}
