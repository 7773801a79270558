// How does a client program in Node get its plan, and print one line for each operation?

import { readFileSync } from 'node:fs'

export function readPlan () {
  const plan = JSON.parse(readFileSync(0, 'utf8'))
  plan.addresses = plan.bootstrap.split(',')
  plan.named = what => `${plan.prefix}-${what}`
  plan.ours = names => names.filter(name => name.startsWith(`${plan.prefix}-`)).sort()
  return plan
}

// The answer as soon as it is so; the last one if it never is.
export async function until (ask, isSo) {
  const deadline = Date.now() + 10_000
  for (;;) {
    const isLast = Date.now() > deadline
    try {
      const answer = await ask()
      if (isLast || isSo(answer)) return answer
    } catch (error) {
      if (isLast) throw error
    }
    await new Promise(resolve => setTimeout(resolve, 100))
  }
}

export const areInSync = partitions => partitions.length > 0 && partitions.every(({ isr }) => isr.length === 2)

export async function perform (plan, operations) {
  for (const name of plan.operations) {
    const line = operations[name]
      ? { operation: name, result: await outcome(operations[name], plan.timeout_s) }
      : { operation: name, unsupported: true }
    process.stdout.write(JSON.stringify(line) + '\n')
  }
  process.exit(0) // what hangs must not hold the process
}

// A line for each attempt; what `ask` throws is a failure.
export async function keepAsking (plan, ask) {
  const deadline = Date.now() + plan.ask_for_s * 1000
  while (Date.now() < deadline) {
    const begun = Date.now()
    let error = null
    try {
      await ask()
    } catch (failure) {
      error = told(failure)
    }
    process.stdout.write(JSON.stringify({ begun, ended: Date.now(), error }) + '\n')
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  return { ended: true }
}

async function outcome (operation, timeoutS) {
  let timer
  const late = new Promise(resolve => {
    timer = setTimeout(() => resolve({ error: `nothing within ${timeoutS} s` }), timeoutS * 1000)
  })
  const run = async () => {
    try {
      return (await operation()) ?? null
    } catch (error) {
      return { error: error.type ?? error.code ?? error.name, message: told(error) }
    }
  }
  const result = await Promise.race([run(), late])
  clearTimeout(timer)
  return result
}

// The messages of an error and of those in it.
export function told (error) {
  const inner = [...(error.errors ?? []), ...(error.cause ? [error.cause] : [])]
  return [error.apiId ? `${error.message} (${error.apiId})` : error.message, ...inner.map(told)].join('; ')
}
