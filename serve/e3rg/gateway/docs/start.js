SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  // Swagger's own checker of documents is on another site.
  validatorUrl: null,
});
