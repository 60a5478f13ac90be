import co.elastic.clients.elasticsearch.ElasticsearchClient;
import co.elastic.clients.elasticsearch._types.ElasticsearchException;
import co.elastic.clients.elasticsearch._types.Refresh;
import co.elastic.clients.elasticsearch._types.SortOrder;
import co.elastic.clients.json.jackson.JacksonJsonpMapper;
import co.elastic.clients.transport.TransportUtils;
import co.elastic.clients.transport.rest_client.RestClientTransport;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import java.io.File;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import javax.net.ssl.SSLContext;
import org.apache.http.Header;
import org.apache.http.HttpHost;
import org.apache.http.auth.AuthScope;
import org.apache.http.auth.UsernamePasswordCredentials;
import org.apache.http.impl.client.BasicCredentialsProvider;
import org.apache.http.message.BasicHeader;
import org.elasticsearch.client.RestClient;

/**
 * Clients of Elasticsearch and Redis in Java against a node with TLS and users. Prints the results as one line of JSON:
 * by client, by way to connect. tests/test_secure_clients.py starts it and checks the results.
 */
public final class Client {
    private static final String HOST = System.getenv("TEST_HOST");
    private static final String USER = System.getenv("TEST_USER");
    private static final String PASSWORD = System.getenv("TEST_PASSWORD");
    private static final String WRONG_PASSWORD = System.getenv("TEST_WRONG_PASSWORD");
    private static final File CA = new File(System.getenv("TEST_CA"));

    public record Ship(String name, int knots) {}

    private interface Request {
        void send() throws Exception;
    }

    private static int statusOf(Request request) throws Exception {
        try {
            request.send();
            return 200;
        } catch (ElasticsearchException error) {
            return error.status();
        }
    }

    /** With an API key where no password is given. */
    private static Map<String, Object> documents(String letter, String password, SSLContext tls) throws Exception {
        String index = System.getenv("TEST_INDEX") + "-java-8-" + letter;
        String other = System.getenv("TEST_OTHER_INDEX");
        int port = Integer.parseInt(System.getenv("TEST_HTTP_PORT"));
        var builder = RestClient.builder(new HttpHost(HOST, port, "https"));
        var credentials = new BasicCredentialsProvider();
        if (password == null) {
            var key = new BasicHeader("Authorization", "ApiKey " + System.getenv("TEST_API_KEY"));
            builder.setDefaultHeaders(new Header[] {key});
        } else {
            credentials.setCredentials(AuthScope.ANY, new UsernamePasswordCredentials(USER, password));
        }
        builder.setHttpClientConfigCallback(http -> {
            if (password != null) {
                http.setDefaultCredentialsProvider(credentials);
            }
            return tls == null ? http : http.setSSLContext(tls);
        });
        Ship dory = new Ship("Dory", 3);
        try (var transport = new RestClientTransport(builder.build(), new JacksonJsonpMapper())) {
            var client = new ElasticsearchClient(transport);
            var indexed = client.index(i -> i.index(index).id("1").document(new Ship("Ada", 12)).refresh(Refresh.True));
            var got = client.get(g -> g.index(index).id("1"), Ship.class);
            var bulk = client.bulk(b -> b.refresh(Refresh.True)
                    .operations(o -> o.index(i -> i.index(index).id("2").document(new Ship("Beagle", 8))))
                    .operations(o -> o.index(i -> i.index(index).id("3").document(new Ship("Cutty Sark", 17))))
                    .operations(o -> o.index(i -> i.index(other).id("1").document(dory))));
            var found = client.search(s -> s.index(index)
                    .query(q -> q.range(r -> r.number(n -> n.field("knots").gte(10.0))))
                    .sort(o -> o.field(f -> f.field("knots").order(SortOrder.Desc))), Ship.class).hits();
            return Map.of(
                    "indexed", indexed.result().jsonValue(),
                    "got", got.source(),
                    "bulk", bulk.items().stream().map(item -> item.status()).toList(),
                    "found", found.hits().stream().map(hit -> hit.id()).toList(),
                    "total", found.total().value(),
                    "forbidden", List.of(
                            statusOf(() -> client.index(i -> i.index(other).id("1").document(dory))),
                            statusOf(() -> client.get(g -> g.index(other).id("1"), Ship.class)),
                            statusOf(() -> client.search(s -> s.index(other), Ship.class))));
        }
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static Map<String, Object> rows(String password, SslOptions tls) throws Exception {
        String prefix = System.getenv("TEST_KEY") + "java:";
        String address = HOST + ":" + System.getenv("TEST_RESP_PORT");
        String credentials = encoded(USER) + ":" + encoded(password);
        RedisClient client = RedisClient.create(RedisURI.create("rediss://" + credentials + "@" + address));
        client.setOptions(ClientOptions.builder().sslOptions(tls).build());
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            var rows = connection.sync();
            String set = rows.set(prefix + "name", "Ada");
            String got = rows.get(prefix + "name");
            long added = rows.hset(prefix + "log", Map.of("knots", "12", "wind", "NW"));
            Map<String, String> hash = rows.hgetall(prefix + "log");
            var async = connection.async();
            connection.setAutoFlushCommands(false);
            RedisFuture<Long> first = async.incr(prefix + "n");
            RedisFuture<Long> second = async.incr(prefix + "n");
            RedisFuture<String> name = async.get(prefix + "name");
            connection.flushCommands();
            connection.setAutoFlushCommands(true);
            LettuceFutures.awaitAll(Duration.ofSeconds(30), first, second, name);
            String forbidden;
            try {
                forbidden = rows.set(System.getenv("TEST_OTHER_KEY"), "x");
            } catch (RedisCommandExecutionException error) {
                forbidden = error.getMessage();
            }
            return Map.of("set", set, "got", got, "added", added, "hash", hash,
                    "pipeline", List.of(first.get(), second.get(), name.get()), "forbidden", forbidden);
        } finally {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
        }
    }

    /** The outcome of a way to connect: where it failed, the errors with their causes, and the status of a refusal. */
    private static Map<String, Object> outcome(Callable<Map<String, Object>> way) {
        try {
            return way.call();
        } catch (Exception error) {
            var failed = new LinkedHashMap<String, Object>();
            var words = new StringBuilder();
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                words.append(words.isEmpty() ? "" : ": ").append(cause);
            }
            failed.put("error", words.toString());
            failed.put("status", error instanceof ElasticsearchException refused ? refused.status() : null);
            return failed;
        }
    }

    public static void main(String[] arguments) throws Exception {
        SSLContext byFile = TransportUtils.sslContextFromHttpCaCrt(CA);
        SSLContext byFingerprint = TransportUtils.sslContextFromCaFingerprint(System.getenv("TEST_CA_FINGERPRINT"));
        SSLContext stranger = TransportUtils.sslContextFromCaFingerprint(System.getenv("TEST_WRONG_FINGERPRINT"));
        var documents = new LinkedHashMap<String, Object>();
        documents.put("password, CA file", outcome(() -> documents("a", PASSWORD, byFile)));
        documents.put("API key, CA file", outcome(() -> documents("b", null, byFile)));
        documents.put("password, CA fingerprint", outcome(() -> documents("c", PASSWORD, byFingerprint)));
        documents.put("API key, CA fingerprint", outcome(() -> documents("d", null, byFingerprint)));
        documents.put("wrong password", outcome(() -> documents("e", WRONG_PASSWORD, byFile)));
        documents.put("unknown CA", outcome(() -> documents("e", PASSWORD, null)));
        documents.put("wrong CA fingerprint", outcome(() -> documents("e", PASSWORD, stranger)));
        SslOptions known = SslOptions.builder().jdkSslProvider().trustManager(CA).build();
        SslOptions unknown = SslOptions.builder().jdkSslProvider().build();
        var rows = new LinkedHashMap<String, Object>();
        rows.put("password, CA file", outcome(() -> rows(PASSWORD, known)));
        rows.put("wrong password", outcome(() -> rows(WRONG_PASSWORD, known)));
        rows.put("unknown CA", outcome(() -> rows(PASSWORD, unknown)));
        var results = Map.of("elasticsearch-java 8", documents, "lettuce", rows);
        System.out.println(new ObjectMapper().writeValueAsString(results));
    }
}
