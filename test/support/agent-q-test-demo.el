;;; agent-q-test-demo.el --- The real demo model server, for tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Starts llama.cpp's server with the demo model where it is installed (make demo-model), once for
;; all tests of an Emacs, and posts to it without the core, to see what the server itself does.

;;; Code:

(require 'ert)
(require 'url)
(require 'agent-q-doctor)

(defun agent-q-test-demo-provider ()
  "Return the provider of the running demo server; skip the test without one."
  (unless (agent-q-doctor-demo-installed-p)
    (message "The demo model is not installed (make demo-model): its tests are skipped.")
    (ert-skip "The demo model is not installed (make demo-model)"))
  (let ((provider 'none-yet)
        (deadline (time-add nil 120)))
    (agent-q-doctor-demo-start (lambda (started) (setq provider started)))
    (while (and (eq provider 'none-yet) (time-less-p nil deadline))
      (accept-process-output nil 0.05))
    (unless (consp provider)
      (error "The demo server did not start: %s"
             (with-current-buffer agent-q-doctor--demo-buffer (buffer-string))))
    provider))

(defun agent-q-test-demo-request (provider question)
  "Return the fields of a streamed request to PROVIDER that asks QUESTION."
  `(:model ,(alist-get 'model provider)
    :stream t
    :messages [(:role "user" :content ,question)]
    :tools [(:type "function"
             :function (:name "describe_symbol"
                        :description "Say what a symbol of the running Lisp names."
                        :parameters (:type "object"
                                     :properties (:symbol (:type "string"))
                                     :required ["symbol"])))]))

(defun agent-q-test-demo-post (provider body)
  "Post BODY, a property list, to PROVIDER; return the events of the reply."
  (let* ((url-request-method "POST")
         (url-request-extra-headers '(("Content-Type" . "application/json")))
         (url-request-data (encode-coding-string (json-serialize body) 'utf-8))
         (events nil))
    (with-current-buffer (url-retrieve-synchronously
                          (concat (alist-get 'base_url provider) "/chat/completions")
                          t t 120)
      (goto-char (point-min))
      (while (re-search-forward "^data: \\({.*\\)$" nil t)
        (push (json-parse-string (match-string 1) :object-type 'alist :array-type 'list)
              events)))
    (nreverse events)))

(defun agent-q-test-demo-calls (events)
  "Return the tool calls that EVENTS add up to, as (NAME . ARGUMENTS) in JSON."
  (let ((calls nil))
    (dolist (event events)
      (dolist (choice (alist-get 'choices event))
        (dolist (part (alist-get 'tool_calls (alist-get 'delta choice)))
          (let* ((function (alist-get 'function part))
                 (call (or (assq (alist-get 'index part) calls)
                           (car (push (list (alist-get 'index part) "" "") calls)))))
            (setf (nth 1 call) (concat (nth 1 call) (alist-get 'name function))
                  (nth 2 call) (concat (nth 2 call) (alist-get 'arguments function)))))))
    (mapcar (lambda (call) (cons (nth 1 call) (nth 2 call))) (nreverse calls))))

(provide 'agent-q-test-demo)
;;; agent-q-test-demo.el ends here
