# docker build --tag llmchecker .
# docker run --rm --volume "$PWD:/work" llmchecker test suite.yaml
FROM python:3.11-slim
COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
# torch without CUDA
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --constraint /source/constraints.txt "/source[polarity,readability,servers]"
WORKDIR /work
ENTRYPOINT ["llmchecker"]
CMD ["test", "suite.yaml"]
