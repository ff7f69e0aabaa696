// vitest loads this into the process of the tests, before each file of tests and after the setup of the project.
import canaries from './c.cjs';

const { expect, afterAll } = await import(process.env.VITEST_PLACE);
canaries(() => expect, afterAll);
