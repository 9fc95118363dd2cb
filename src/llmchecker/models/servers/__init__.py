"""Models on HTTP servers: vLLM, llama.cpp and servers with OpenAI's API."""
