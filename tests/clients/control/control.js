// A test of a client in JavaScript with the control endpoint of a broker.
const assert = require('node:assert')
const { Kafka, logLevel } = require('kafkajs')

const topic = 'orders'

async function control(command, options = {}) {
  const response = await fetch(process.env.CONTROL_URL, {
    method: 'POST',
    headers: { Authorization: `Bearer ${process.env.CONTROL_TOKEN}` },
    body: JSON.stringify({ command, ...options }),
  })
  const answer = await response.json()
  assert.strictEqual(response.status, 200, `${command}: ${answer.error}`)
  return answer
}

async function main() {
  const kafka = new Kafka({
    brokers: [process.env.BOOTSTRAP_SERVERS],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 10, maxRetryTime: 100 },
  })
  const producer = kafka.producer()
  await producer.connect()
  const produce = (value) => producer.send({ topic, messages: [{ value }] })

  await produce('before the rule')
  await control('faults add', {
    arguments: ['api=Produce', `topic=${topic}`, 'nth=1', 'error=NOT_LEADER_OR_FOLLOWER'],
  })
  await produce('sent twice')
  const seen = await control('requests', { api: 'Produce', topic, count: 3, timeout: '10s' })
  assert.deepStrictEqual(seen.requests.map((request) => request.errors), [[], ['NOT_LEADER_OR_FOLLOWER'], []])

  await control('faults add', { arguments: ['api=Produce', 'error=TOPIC_AUTHORIZATION_FAILED'] })
  await assert.rejects(produce('refused'), { type: 'TOPIC_AUTHORIZATION_FAILED' })

  assert.deepStrictEqual(await control('reset'), { rules: 2, topics: 1 })
  assert.strictEqual((await control('requests', { api: 'Produce' })).count, 0)
  await producer.disconnect()
  console.log('passed')
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
