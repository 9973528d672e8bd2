// GET /data: one string out of Redis as application/json. Usage: node server.mjs --port N
// REDIS_URL names the server: unix:///path or redis://host:port.
import { parseArgs } from 'node:util'
import Fastify from 'fastify'
import { Redis } from 'ioredis'

const { values } = parseArgs({
  options: { host: { type: 'string', default: '127.0.0.1' }, port: { type: 'string', default: '3000' } }
})
const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
const redis = url.startsWith('unix://') ? new Redis(url.slice('unix://'.length)) : new Redis(url)
const app = Fastify()

app.get('/data', async (request, reply) => {
  const value = await redis.get('doc')
  if (value === null) return reply.code(404).send()
  return reply.type('application/json').send(value)
})
app.get('/health', async () => ({ ok: true }))

await app.listen({ host: values.host, port: Number(values.port) })
process.once('SIGTERM', () => process.exit(0))
