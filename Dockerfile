# The sidecar's image, small, for a user without rights: docker build --tag specwatch:0.1.0 .
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY specwatch ./specwatch
RUN python -m venv /opt/specwatch && /opt/specwatch/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/specwatch /opt/specwatch
ENV PATH=/opt/specwatch/bin:$PATH PYTHONUNBUFFERED=1
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 9108
ENTRYPOINT ["specwatch"]
CMD ["sidecar", "--help"]
