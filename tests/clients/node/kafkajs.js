// What does kafkajs see?

import { readFileSync } from 'node:fs'
import kafkajs from 'kafkajs'
import { areInSync, keepAsking, perform, readPlan, until } from './speaking.js'

// As kafkajs names it.
function security (given) {
  if (!given) return {}
  const text = path => readFileSync(path, 'utf8')
  const options = given.protocol.endsWith('SSL') ? { ssl: { ca: [text(given.authority)] } } : {}
  if (given.mechanism === 'SSL') Object.assign(options.ssl, { cert: text(given.certificate), key: text(given.key) })
  else if (given.mechanism === 'OAUTHBEARER') {
    options.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: given.token }) }
  } else options.sasl = { mechanism: given.mechanism.toLowerCase(), username: given.user, password: given.password }
  return { ...options, retry: { retries: 1 } }
}

const { ConfigResourceTypes, Kafka, logLevel } = kafkajs
const plan = readPlan()
const kafka = new Kafka({ brokers: plan.addresses, logLevel: logLevel.NOTHING, ...security(plan.security) })
const admin = kafka.admin()
let connected
const ready = () => (connected ??= admin.connect())

const create = async (topic, options = {}) => {
  await ready()
  return { accepted: await admin.createTopics({ topics: [topic], ...options }) }
}
const plain = () => ({ topic: plan.named('plain'), numPartitions: 3, replicationFactor: 2 })
// It waits for leaders otherwise, also of a topic that is only checked.
const imagine = () => create(
  { topic: plan.named('imagined'), numPartitions: 1, replicationFactor: 2 },
  { validateOnly: true, waitForLeaders: false }
)
const configs = () => ({ type: ConfigResourceTypes.TOPIC, name: plan.named('configs') })

async function describeCluster () {
  await ready()
  const { brokers, controller } = await admin.describeCluster()
  const leading = brokers.find(({ nodeId }) => nodeId === controller)
  return {
    nodes: brokers.map(({ nodeId }) => nodeId),
    controller,
    controller_address: leading ? `${leading.host}:${leading.port}` : ''
  }
}

async function partitions (what) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [plan.named(what)] })
  return topics[0].partitions
    .map(({ partitionId, leader, replicas, isr }) => ({ partition: partitionId, leader, replicas, isr: [...isr].sort() }))
    .sort((a, b) => a.partition - b.partition)
}

async function describeTopic () {
  const found = {}
  for (const what of ['plain', 'assigned']) found[plan.named(what)] = await until(() => partitions(what), areInSync)
  return found
}

const topics = async () => plan.ours(await admin.listTopics())

const grow = async (count, what = 'plain') => {
  const accepted = await admin.createPartitions({ topicPartitions: [{ topic: plan.named(what), count }] })
  return { accepted }
}

const reassign = async (what, replicas) => {
  const partitionAssignment = [{ partition: 0, replicas }]
  await admin.alterPartitionReassignments({ topics: [{ topic: plan.named(what), partitionAssignment }] })
  return { accepted: true }
}

async function settings () {
  const { resources } = await admin.describeConfigs({ resources: [configs()], includeSynonyms: false })
  const found = Object.fromEntries(resources[0].configEntries.map(e => [e.configName, [e.configValue, e.configSource]]))
  return { 'retention.ms': found['retention.ms'], 'cleanup.policy': found['cleanup.policy'] }
}

async function moves () {
  const { topics } = await admin.listPartitionReassignments({ topics: [{ topic: plan.named('moving'), partitions: [0] }] })
  return topics.flatMap(({ partitions }) => partitions)
    .map(({ replicas, addingReplicas, removingReplicas }) => [replicas, addingReplicas, removingReplicas])
}

async function produceConsume () {
  const producer = kafka.producer({ createPartitioner: () => ({ message }) => Number(message.key) })
  await producer.connect()
  const messages = Array.from({ length: 100 }, (_, n) => ({ key: String(n % 3), value: `record-${n}` }))
  await producer.send({ topic: plan.named('plain'), acks: -1, messages })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: plan.named('group') })
  await consumer.connect()
  await consumer.subscribe({ topics: [plan.named('plain')], fromBeginning: true })
  const seen = new Set()
  await new Promise((resolve, reject) => {
    setTimeout(resolve, 12_000)
    consumer.run({
      eachMessage: async ({ message }) => {
        seen.add(message.value.toString())
        if (seen.size === 100) resolve()
      }
    }).catch(reject)
  })
  await consumer.disconnect()
  return { consumed: seen.size }
}

async function remove (what) {
  await admin.deleteTopics({ topics: [plan.named(what)] })
  return { accepted: true }
}

await perform(plan, {
  describe_cluster: describeCluster,
  create_topic: () => create(plain()),
  create_with_configs: () => create({
    topic: plan.named('configs'),
    numPartitions: 1,
    replicationFactor: 2,
    configEntries: [{ name: 'retention.ms', value: '3600000' }, { name: 'cleanup.policy', value: 'compact' }]
  }),
  create_assigned: () => create({
    topic: plan.named('assigned'),
    replicaAssignment: [{ partition: 0, replicas: [1, 2] }, { partition: 1, replicas: [2, 3] }]
  }),
  validate_only: imagine,
  keep_asking: () => keepAsking(plan, imagine),
  create_existing: () => create(plain()),
  create_with_too_many_replicas: () => create({ topic: plan.named('crowded'), numPartitions: 1, replicationFactor: 9 }),
  list_topics: () => until(topics, names => names.length === 5),
  describe_topic: describeTopic,
  create_partitions: async () => {
    await grow(5)
    return { partitions: (await until(() => partitions('plain'), found => found.length === 5)).length }
  },
  create_fewer_partitions: () => grow(2),
  grow_unknown: () => grow(5, 'unknown'),
  // This client cannot change one setting and keep another: it sends both.
  alter_configs: async () => {
    const configEntries = [{ name: 'retention.ms', value: '7200000' }, { name: 'cleanup.policy', value: 'compact' }]
    const { resources } = await admin.alterConfigs({ validateOnly: false, resources: [{ ...configs(), configEntries }] })
    return resources.map(({ errorCode, errorMessage }) => [errorCode, errorMessage])
  },
  describe_configs: () => until(settings, found => found['retention.ms'][0] === '7200000'),
  reassign: () => reassign('moving', plan.move_to),
  reassign_unknown: () => reassign('unknown', [1, 2]),
  list_reassignments: () => until(moves, found => found.length > 0),
  produce_consume: produceConsume,
  list_groups: () => until(
    async () => plan.ours((await admin.listGroups()).groups.map(({ groupId }) => groupId)),
    found => found.length > 0
  ),
  delete_records: async () => {
    const topic = plan.named('plain')
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '10' }] })
    const offsets = await admin.fetchTopicOffsets(topic)
    return { low_watermark: offsets.find(({ partition }) => partition === 0).low }
  },
  delete_topic: async () => {
    await remove('configs')
    return { left: await until(topics, names => !names.includes(plan.named('configs'))) }
  },
  delete_unknown: () => remove('unknown')
})
