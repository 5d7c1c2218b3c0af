;;; agent-q-image-tools.el --- Tools that a running program offers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A program in a Lisp image defines tools with AGENT-Q-IMAGE:DEFINE-TOOL.  They
;; are in the registry while the connection lives, and a call of one goes to the
;; image that it came from.  The image says when its tools change.

;;; Code:

(require 'agent-q)
(require 'agent-q-connection)
(require 'agent-q-execute)
(require 'agent-q-image)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-registry)
(require 'agent-q-text)
(require 'agent-q-tool)

(defconst agent-q-image-tools-most 100
  "Most tools of an image that are used.
Each costs tokens in every request; providers take no more than 128.")

(defconst agent-q-image-tools-longest 1000
  "Longest description of an image's tool, in characters.
Some providers take no more than 1024.")

(defconst agent-q-image-tools-longest-schema 16000
  "Longest JSON Schema for the arguments of an image's tool, in characters.")

;; A connection's process has the properties `agent-q-image-tools', an alist of
;; what the image said of those that are registered and the tools themselves, and `agent-q-image-tools-known', t once they were
;; asked for.

(defun agent-q-image-tools-ensure (connection)
  "Register the tools of the image behind CONNECTION, which may be nil.
This goes on in the background."
  (when (and (agent-q-connection-live-p connection)
             (not (process-get (agent-q-connection-process connection)
                               'agent-q-image-tools-known)))
    (process-put (agent-q-connection-process connection)
                 'agent-q-image-tools-known t)
    (add-hook 'agent-q-image-event-functions #'agent-q-image-tools--on-event)
    (agent-q-image-tools--ask connection)))

(defun agent-q-image-tools--on-event (process event)
  "Follow EVENT, which is about the tools of the image behind PROCESS."
  (pcase event
    ('other-tools (agent-q-image-tools--changed process))
    ('closed (agent-q-image-tools--closed process))))

;;;; The list

(defun agent-q-image-tools--changed (process)
  "Ask again for the tools of the image behind PROCESS."
  (let ((connection (agent-q-connection-of-process process)))
    (when connection
      ;; This is called in a process filter of the client's.
      (run-at-time 0 nil #'agent-q-image-tools--ask connection))))

(defun agent-q-image-tools--ask (connection)
  "Ask for the tools of the image behind CONNECTION, and register them.
Answers can overtake each other, so there is one question at a time."
  (let ((process (agent-q-connection-process connection)))
    (if (process-get process 'agent-q-image-tools-asking)
        (process-put process 'agent-q-image-tools-asking 'again)
      (process-put process 'agent-q-image-tools-asking t)
      (agent-q-image-query
       connection "list-tools" nil
       (lambda (reply &rest _)
         (let ((again (process-get process 'agent-q-image-tools-asking)))
           (process-put process 'agent-q-image-tools-asking nil)
           (agent-q-image-tools--listed connection reply)
           (when (and (eq again 'again) (process-live-p process))
             (agent-q-image-tools--ask connection))))))))

(defun agent-q-image-tools--listed (connection reply)
  "Take the list of tools that came over CONNECTION in REPLY, nil for none."
  (let ((process (agent-q-connection-process connection)))
    (pcase reply
      ((and `(:outcome :returned :value ,value . ,_)
            (guard (process-live-p process)))
       (agent-q-image-tools--take connection (plist-get value :tools)))
      ;; It is asked again when a chat next uses it.
      (_ (process-put process 'agent-q-image-tools-known nil)))))

(defun agent-q-image-tools--take (connection entries)
  "Register exactly the tools of ENTRIES for the image behind CONNECTION."
  (let* ((process (agent-q-connection-process connection))
         (old (process-get process 'agent-q-image-tools))
         (new (cl-loop for entry in (agent-q-image-tools--few entries connection)
                       ;; Turns under way hold on to tools: one that is as before stays.
                       for tool = (or (agent-q-image-tools--kept entry old)
                                      (agent-q-image-tools--register connection entry))
                       when tool collect (cons entry tool))))
    (pcase-dolist (`(,_ . ,tool) old)
      (unless (cl-find (agent-q-tool-name tool) new
                       :key (lambda (it) (agent-q-tool-name (cdr it))) :test #'equal)
        (agent-q-image-tools--unregister tool)))
    (process-put process 'agent-q-image-tools new)))

(defun agent-q-image-tools--few (entries connection)
  "Return as many of ENTRIES, of the image behind CONNECTION, as are used."
  (when (nthcdr agent-q-image-tools-most entries)
    (display-warning 'agent-q (format "Only the first %d tools of the image %s are used"
                                      agent-q-image-tools-most
                                      (agent-q-connection-label connection))))
  (cl-subseq entries 0 (min agent-q-image-tools-most (length entries))))

(defun agent-q-image-tools--kept (entry old)
  "Return the tool that ENTRY has in OLD, an alist, if it is registered still."
  (let ((tool (cdr (assoc entry old))))
    (and tool (eq tool (agent-q-get-tool (agent-q-tool-name tool))) tool)))

(defun agent-q-image-tools--register (connection entry)
  "Register the tool that ENTRY describes; return it, or nil when that can't be.
Its calls go over CONNECTION."
  (let* ((name (plist-get entry :name))
         (origin (agent-q-image-tools--origin connection))
         (there (agent-q-get-tool name)))
    (condition-case failure
        (progn
          ;; The agent must not get another tool under a name that it trusts.
          (when (and there (not (equal origin (agent-q-tool-origin there))))
            (signal 'agent-q-error (list "Another tool has that name")))
          (let ((tool (agent-q-image-tools--tool connection origin entry)))
            (agent-q-register-tool agent-q-registry tool)))
      (error
       (display-warning 'agent-q (format "The tool %s of the image %s is not used: %s"
                                         (agent-q-text-visible-line (format "%s" name))
                                         (cadr origin)
                                         (agent-q-text-visible-line (error-message-string failure)
                                                                    agent-q-image-tools-longest)))
       nil))))

(defun agent-q-image-tools--origin (connection)
  "Return the origin of the tools of the image behind CONNECTION.
It stays while the connection lives, even if others come and go."
  (let ((process (agent-q-connection-process connection)))
    (or (process-get process 'agent-q-image-tools-origin)
        (let ((origin (list 'image (agent-q-connection-label connection))))
          (process-put process 'agent-q-image-tools-origin origin)
          origin))))

(defun agent-q-image-tools--tool (connection origin entry)
  "Return the tool with ORIGIN that ENTRY, of the image behind CONNECTION, is."
  (let* ((schema (agent-q-json-parse (agent-q-image-tools--schema entry)))
         (tool (agent-q-define-tool
                (plist-get entry :name)
                (agent-q-image-tools--sentence (plist-get entry :description))
                (mapcar #'agent-q-image-tools--parameter
                        (agent-q-tool-parameters-of-schema schema))
                :required (append (gethash "required" schema) nil)
                ;; Nobody has said yet that one without a level is harmless.
                :safety-level (intern (concat ":" (or (plist-get entry :level)
                                                      "dangerous")))
                :categories (mapcar #'agent-q-image-tools--category
                                    (plist-get entry :categories))
                :async t
                :handler (lambda (arguments callback)
                           (agent-q-image-tools--run connection (plist-get entry :name)
                                                     arguments callback)))))
    (setf (agent-q-tool-origin tool) origin)
    tool))

;; A program's words become part of what the model reads, so they must not look
;; like anything else there.

(defun agent-q-image-tools--sentence (text)
  "Return TEXT, a description, on one line and not too long."
  (agent-q-text-visible-line (string-trim (replace-regexp-in-string "[ \t\n\r\f]+" " " text))
                             agent-q-image-tools-longest))

(defun agent-q-image-tools--schema (entry)
  "Return the schema of the tool that ENTRY describes, or signal an error."
  (let ((schema (plist-get entry :schema)))
    (when (> (length schema) agent-q-image-tools-longest-schema)
      (signal 'agent-q-error
              (list (format "Its parameters take %d characters, more than the limit of %d"
                            (length schema) agent-q-image-tools-longest-schema))))
    schema))

(defun agent-q-image-tools--parameter (parameter)
  "Return PARAMETER, a property list, with a description on one line."
  (let ((name (plist-get parameter :name))
        (description (plist-get parameter :description)))
    (unless (string-match-p "\\`[[:alnum:]_.:*+/!?<>=$%&~^-]\\{1,64\\}\\'" name)
      (signal 'agent-q-error
              (list (format "%s is not a valid parameter name" (agent-q-text-visible-line name)))))
    (if (stringp description)
        (plist-put (copy-sequence parameter) :description
                   (agent-q-image-tools--sentence description))
      parameter)))

(defun agent-q-image-tools--category (name)
  "Return the keyword of the category NAME."
  (unless (string-match-p "\\`[a-z0-9_-]\\{1,40\\}\\'" name)
    (signal 'agent-q-error
            (list (format "%s is not a valid category name" (agent-q-text-visible-line name)))))
  (intern (concat ":" name)))

(defun agent-q-image-tools--unregister (tool)
  "Remove TOOL from the registry, unless another one has its name by now."
  (when (eq tool (agent-q-get-tool (agent-q-tool-name tool)))
    (agent-q-unregister-tool (agent-q-tool-name tool))))

(defun agent-q-image-tools--closed (process)
  "Remove the tools of the image behind PROCESS, whose connection is closed."
  (let ((tools (process-get process 'agent-q-image-tools)))
    (process-put process 'agent-q-image-tools nil)
    (mapc #'agent-q-image-tools--unregister (mapcar #'cdr tools))))

;;;; A call

(defun agent-q-image-tools--run (connection name arguments callback)
  "Call the tool NAME of the image behind CONNECTION with ARGUMENTS.
CALLBACK gets the value.  The value here is a function that stops it."
  (pcase-let* ((`(,asker . ,watch) agent-q-execute-handler-watch)
               (request (agent-q-image-query
                         connection "call-tool"
                         (list :name name :arguments (agent-q-json-encode arguments)
                               :watch (and watch (car (read-from-string watch))))
                         (lambda (reply status payload)
                           (funcall callback
                                    (agent-q-image-tools--value reply status payload)))
                         agent-q-eval-timeout nil asker)))
    (lambda () (agent-q-image-cancel request))))

(defun agent-q-image-tools--value (reply status payload)
  "Return the value in REPLY of a call that ended with STATUS and PAYLOAD."
  (pcase reply
    (`(:outcome :returned :value ,value . ,more)
     (let ((problem (plist-get value :problem))
           (denials (plist-get more :denials)))
       (cond ((and denials (null problem))
              (concat (plist-get value :result)
                      (format "\n(Not allowed while it ran: %s.)" (string-join denials "; "))))
             (problem (agent-q-tool-failure problem))
             ;; A function that only prints has said what it had to say.
             ((and (member (plist-get value :result) '("nil" "NIL"))
                   (not (string-blank-p (or (plist-get value :output) ""))))
              (string-trim (plist-get value :output)))
             (t (plist-get value :result)))))
    (`(:outcome :missed . ,more) (agent-q-tool-failure (plist-get more :message)))
    (`(:outcome :error . ,more)
     (agent-q-tool-failure (format "Tool error: %s: %s" (plist-get more :type)
                                   (plist-get more :message))))
    (_ (agent-q-tool-failure
        (concat "Tool error: "
                (agent-q-image-tools--end status)
                (let ((last (agent-q-image-tools--last payload)))
                  (if (string-blank-p last) "" (concat "\n" (string-trim last)))))))))

(defun agent-q-image-tools--last (payload)
  "Return the last words in PAYLOAD, nil, a text, or a reply with what was printed."
  (pcase (agent-q-connection-call-reply payload)
    ('nil (or payload ""))
    (reply (or (plist-get reply :output) ""))))

(defun agent-q-image-tools--end (status)
  "Say what STATUS means for a call that has no result."
  (pcase status
    ("timed-out" (format "it was stopped after %s s, the time of `agent-q-eval-timeout'."
                         agent-q-eval-timeout))
    ("disconnected" "the connection to the Lisp image was lost during the call.")
    ("deaf" "it doesn't react to a request to stop, and may still be running.")
    ("unresponsive" "the Lisp image does not answer; the call may still be running in it.")
    ("aborted" "the Lisp side aborted the call.")
    ("done" "it was cancelled.")
    (_ (format "the call ended %s." status))))

(provide 'agent-q-image-tools)
;;; agent-q-image-tools.el ends here
