// Logs request lines to a file with pino and prints how many a CPU second makes.
// Usage: node bench.js FILE LINES
// pino at its fastest: buffered asynchronous destination, no serializers to run.
'use strict'
const pino = require('pino')

const path = process.argv[2] || '/dev/null'
const lines = Number(process.argv[3] || 1000000)
const destination = pino.destination({ dest: path, sync: false, minLength: 16383 })
const log = pino({}, destination)

const started = process.hrtime.bigint()
const cpuBefore = process.cpuUsage()

// In slices, so that the asynchronous destination gets to write.
function run (from) {
  const to = Math.min(from + 10000, lines)
  for (let i = from; i < to; i++) {
    log.info({
      reqId: 'req-' + i,
      req: { method: 'GET', url: '/users/17?full=yes', remoteAddress: '127.0.0.1', remotePort: 51234 },
      res: { statusCode: 200, bytes: 512 },
      responseTime: 1.234567,
      rescued: false
    }, 'request completed')
  }
  if (to < lines) setImmediate(run, to)
  else destination.end()
}

destination.once('close', () => {
  const cpu = process.cpuUsage(cpuBefore)
  const cpuSeconds = (cpu.user + cpu.system) / 1e6
  const wallSeconds = Number(process.hrtime.bigint() - started) / 1e9
  console.log(JSON.stringify({
    lines,
    cpu_s: cpuSeconds,
    wall_s: wallSeconds,
    lines_per_cpu_s: Math.round(lines / cpuSeconds)
  }))
})
destination.once('ready', () => run(0))
