// What does @platformatic/kafka see?

import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { areInSync, keepAsking, perform, readPlan, told, until } from './speaking.js'

const TOPIC_RESOURCE = 2
const SET = 0
const plan = readPlan()
const options = { clientId: 'platformatic', bootstrapBrokers: plan.addresses }
const admin = new Admin(options)
const accepted = () => ({ accepted: true })

const create = (what, given) => admin.createTopics({ topics: [plan.named(what)], ...given }).then(accepted)
const remove = what => admin.deleteTopics({ topics: [plan.named(what)] }).then(accepted)
const grow = (count, what = 'plain') =>
  admin.createPartitions({ topics: [{ name: plan.named(what), count }] }).then(accepted)

// It cannot ask for a check alone. The controller's refusal of too many replicas is an answer too, and leaves nothing.
async function askForTooMany () {
  try {
    await create('crowded', { partitions: 1, replicas: 9 })
  } catch (error) {
    if (!told(error).includes('INVALID_REPLICATION_FACTOR')) throw error
  }
}

const topics = async () => plan.ours(await admin.listTopics())

async function describeCluster () {
  const { brokers, controllerId } = await admin.metadata({ topics: [], forceUpdate: true })
  const leading = brokers.get(controllerId)
  return {
    nodes: [...brokers.keys()],
    controller: controllerId,
    controller_address: leading ? `${leading.host}:${leading.port}` : ''
  }
}

async function partitions (what) {
  const { topics } = await admin.metadata({ topics: [plan.named(what)], forceUpdate: true })
  return topics.get(plan.named(what)).partitions
    .map(({ leader, replicas, isr }, partition) => ({ partition, leader, replicas, isr: [...isr].sort() }))
}

async function describeTopic () {
  const found = {}
  for (const what of ['plain', 'assigned']) found[plan.named(what)] = await until(() => partitions(what), areInSync)
  return found
}

async function settings () {
  const resources = [{ resourceType: TOPIC_RESOURCE, resourceName: plan.named('configs') }]
  const [{ configs }] = await admin.describeConfigs({ resources })
  const found = Object.fromEntries(configs.map(({ name, value, configSource }) => [name, [value, configSource]]))
  return { 'retention.ms': found['retention.ms'], 'cleanup.policy': found['cleanup.policy'] }
}

async function produceConsume () {
  const topic = plan.named('plain')
  const producer = new Producer({ ...options, serializers: stringSerializers })
  const messages = Array.from({ length: 100 }, (_, n) => ({ topic, partition: n % 3, value: `record-${n}` }))
  await producer.send({ acks: -1, messages })
  await producer.close()
  const consumer = new Consumer({ ...options, groupId: plan.named('group'), deserializers: stringDeserializers })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: true })
  const seen = new Set()
  await Promise.race([
    new Promise(resolve => setTimeout(resolve, 12_000)),
    (async () => {
      for await (const { value } of stream) {
        seen.add(value)
        if (seen.size === 100) break
      }
    })()
  ])
  return { consumed: seen.size }
}

await perform(plan, {
  describe_cluster: describeCluster,
  create_topic: () => create('plain', { partitions: 3, replicas: 2 }),
  create_with_configs: () => create('configs', {
    partitions: 1,
    replicas: 2,
    configs: [{ name: 'retention.ms', value: '3600000' }, { name: 'cleanup.policy', value: 'compact' }]
  }),
  create_assigned: () => create('assigned', {
    assignments: [{ partition: 0, brokers: [1, 2] }, { partition: 1, brokers: [2, 3] }]
  }),
  create_existing: () => create('plain', { partitions: 3, replicas: 2 }),
  create_with_too_many_replicas: () => create('crowded', { partitions: 1, replicas: 9 }),
  keep_asking: () => keepAsking(plan, askForTooMany),
  list_topics: () => until(topics, names => names.length === 5),
  describe_topic: describeTopic,
  create_partitions: async () => {
    await grow(5)
    return { partitions: (await until(() => partitions('plain'), found => found.length === 5)).length }
  },
  create_fewer_partitions: () => grow(2),
  grow_unknown: () => grow(5, 'unknown'),
  alter_configs: () => admin.incrementalAlterConfigs({
    resources: [{
      resourceType: TOPIC_RESOURCE,
      resourceName: plan.named('configs'),
      configs: [{ name: 'retention.ms', configOperation: SET, value: '7200000' }]
    }]
  }).then(accepted),
  describe_configs: () => until(settings, found => found['retention.ms'][0] === '7200000'),
  produce_consume: produceConsume,
  list_groups: () => until(async () => plan.ours([...(await admin.listGroups()).keys()]), found => found.length > 0),
  delete_records: async () => {
    const topics = await admin.deleteRecords({
      topics: [{ name: plan.named('plain'), partitions: [{ partition: 0, offset: 10n }] }]
    })
    return { low_watermark: topics[0].partitions.map(({ lowWatermark }) => String(lowWatermark)) }
  },
  delete_topic: async () => {
    await remove('configs')
    return { left: await until(topics, names => !names.includes(plan.named('configs'))) }
  },
  delete_unknown: () => remove('unknown')
})
