// Clients of Elasticsearch and Redis in Node.js against a node with TLS and users. Prints the results as one line of
// JSON: by client, by way to connect. `tests/test_secure_clients.py` starts it and checks the results.

import { readFileSync } from 'node:fs'
import { Client as Elasticsearch8 } from 'elasticsearch8'
import { Client as Elasticsearch9 } from 'elasticsearch9'
import { Redis as Redis5 } from 'ioredis5'
import { Redis as Redis6 } from 'ioredis6'

const env = process.env
const ca = readFileSync(env.TEST_CA)
const password = { username: env.TEST_USER, password: env.TEST_PASSWORD }
const key = { apiKey: env.TEST_API_KEY }
const byFile = { tls: { ca } }
const byFingerprint = (caFingerprint) => ({ caFingerprint, tls: { rejectUnauthorized: false } })
const words = (error) => [error.message, error.cause?.message].filter(Boolean).join(': ')

async function documents (Client, index, options) {
  // One try: the default waits for seconds between tries, also where a certificate is not trusted.
  const node = `https://${env.TEST_HOST}:${env.TEST_HTTP_PORT}`
  const client = new Client({ node, maxRetries: 0, ...options })
  const other = env.TEST_OTHER_INDEX
  const refused = async (request) => await request.then(() => 200, (error) => error.statusCode ?? words(error))
  try {
    const indexed = await client.index({ index, id: '1', document: { name: 'Ada', knots: 12 }, refresh: true })
    const got = await client.get({ index, id: '1' })
    const items = [
      { index: { _index: index, _id: '2' } }, { name: 'Beagle', knots: 8 },
      { index: { _index: index, _id: '3' } }, { name: 'Cutty Sark', knots: 17 },
      { index: { _index: other, _id: '1' } }, { name: 'Dory', knots: 3 }
    ]
    const bulk = await client.bulk({ refresh: true, operations: items })
    const found = await client.search({ index, query: { range: { knots: { gte: 10 } } }, sort: [{ knots: 'desc' }] })
    const document = { name: 'Dory', knots: 3 }
    return {
      indexed: indexed.result,
      got: got._source,
      bulk: bulk.items.map((item) => item.index.status),
      found: found.hits.hits.map((hit) => hit._id),
      total: found.hits.total.value,
      forbidden: [
        await refused(client.index({ index: other, id: '1', document })),
        await refused(client.get({ index: other, id: '1' })),
        await refused(client.search({ index: other }))
      ]
    }
  } finally {
    await client.close()
  }
}

async function rows (Redis, prefix, options) {
  const auth = `${encodeURIComponent(env.TEST_USER)}:${encodeURIComponent(options.password ?? env.TEST_PASSWORD)}`
  const url = `rediss://${auth}@${env.TEST_HOST}:${env.TEST_RESP_PORT}`
  const tls = options.ca ? { ca: options.ca } : {}
  // One try: the default tries without end.
  const client = new Redis(url, { tls, lazyConnect: true, retryStrategy: null })
  // ioredis reports the cause to listeners alone, and to `connect` only that the connection is closed.
  let cause
  client.on('error', (error) => { cause ??= error })
  try {
    await client.connect()
    const set = await client.set(`${prefix}name`, 'Ada')
    const got = await client.get(`${prefix}name`)
    const added = await client.hset(`${prefix}log`, { knots: '12', wind: 'NW' })
    const hash = await client.hgetall(`${prefix}log`)
    const pipeline = await client.pipeline().incr(`${prefix}n`).incr(`${prefix}n`).get(`${prefix}name`).exec()
    const forbidden = await client.set(env.TEST_OTHER_KEY, 'x').catch(words)
    const piped = pipeline.map(([error, value]) => error ? words(error) : value)
    return { set, got, added, hash, pipeline: piped, forbidden }
  } catch (error) {
    throw cause ?? error
  } finally {
    client.disconnect()
  }
}

async function all (ways) {
  const results = {}
  for (const [way, run] of Object.entries(ways)) {
    try {
      results[way] = await run()
    } catch (error) {
      results[way] = { error: words(error), status: error.statusCode ?? null }
    }
  }
  return results
}

const results = {}
const known = byFingerprint(env.TEST_CA_FINGERPRINT)
const unknown = byFingerprint(env.TEST_WRONG_FINGERPRINT)
const wrong = { ...password, password: env.TEST_WRONG_PASSWORD }
for (const [version, Client] of [[8, Elasticsearch8], [9, Elasticsearch9]]) {
  const of = (letter, options) => () => documents(Client, `${env.TEST_INDEX}-node-${version}-${letter}`, options)
  results[`@elastic/elasticsearch ${version}`] = await all({
    'password, CA file': of('a', { auth: password, ...byFile }),
    'API key, CA file': of('b', { auth: key, ...byFile }),
    'password, CA fingerprint': of('c', { auth: password, ...known }),
    'API key, CA fingerprint': of('d', { auth: key, ...known }),
    'wrong password': of('e', { auth: wrong, ...byFile }),
    'unknown CA': of('e', { auth: password }),
    'wrong CA fingerprint': of('e', { auth: password, ...unknown })
  })
}
for (const [version, Redis] of [[5, Redis5], [6, Redis6]]) {
  const of = (options) => () => rows(Redis, `${env.TEST_KEY}node-${version}:`, options)
  results[`ioredis ${version}`] = await all({
    'password, CA file': of({ ca }),
    'wrong password': of({ ca, password: env.TEST_WRONG_PASSWORD }),
    'unknown CA': of({})
  })
}
console.log(JSON.stringify(results))
