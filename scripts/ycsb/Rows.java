import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import redis.clients.jedis.Jedis;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * YCSB's records as hashes, through Jedis: HSET, HGETALL for all fields or HMGET for some, DEL. The same for every
 * server that speaks RESP; each thread of YCSB has a connection of its own. Properties: `redis.host`, `redis.port`.
 * Scans want sorted sets, which Plimsoll does not have: they are refused.
 */
public class Rows extends DB {
  private Jedis jedis;

  @Override
  public void init() {
    String host = getProperties().getProperty("redis.host", "127.0.0.1");
    jedis = new Jedis(host, Integer.parseInt(getProperties().getProperty("redis.port", "6379")), 30_000);
    jedis.connect();
  }

  @Override
  public void cleanup() {
    jedis.close();
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    if (fields == null) {
      for (Map.Entry<String, String> field : jedis.hgetAll(key).entrySet()) {
        result.put(field.getKey(), new StringByteIterator(field.getValue()));
      }
      return result.isEmpty() ? Status.NOT_FOUND : Status.OK;
    }
    String[] names = fields.toArray(new String[0]);
    int at = 0;
    for (String value : jedis.hmget(key, names)) {
      if (value != null) {
        result.put(names[at], new StringByteIterator(value));
      }
      at++;
    }
    return result.size() == names.length ? Status.OK : Status.NOT_FOUND;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return update(table, key, values);
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    Map<String, String> fields = new HashMap<>();
    for (Map.Entry<String, ByteIterator> field : values.entrySet()) {
      fields.put(field.getKey(), field.getValue().toString());
    }
    jedis.hset(key, fields);
    return Status.OK;
  }

  @Override
  public Status delete(String table, String key) {
    return jedis.del(key) == 1 ? Status.OK : Status.NOT_FOUND;
  }

  @Override
  public Status scan(
      String table, String from, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }
}
