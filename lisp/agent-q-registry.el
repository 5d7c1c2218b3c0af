;;; agent-q-registry.el --- Where tools are found by name  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The registry is in the core.  Tools of Emacs Lisp are kept here as well,
;; because their handlers are, and because they may be defined before the core
;; is loaded: it gets them when it starts.  What asks for all tools starts it.

;;; Code:

(require 'agent-q)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-tool)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar agent-q-registry-run-function nil
  "Function that runs a built-in tool, called with its name and its arguments.")

(defvar agent-q-registry--own (make-hash-table :test #'equal)
  "The registered tools of Emacs Lisp by name.")

(defvar agent-q-registry--removed nil
  "The names that were unregistered, so that a core loaded later lacks them.")

(defvar agent-q-registry--builtin (make-hash-table :test #'equal)
  "The tools of the core that were looked at, by name.")

(defvar agent-q-registry--handlers (make-hash-table :weakness 'value)
  "The tools that the core can ask for, by number.")

(defvar agent-q-registry--last-number 0
  "The last number that a handler got.")

(defvar agent-q-registry--started nil
  "Whether the core has the tools.")

(defvar agent-q-registry--levels nil
  "The value of `agent-q-tool-levels' that the core has.")

;;;; The core

(defun agent-q-registry-ensure ()
  "Start the core if needed, with all tools and levels."
  (unless agent-q-registry--started
    (agent-q-events-ensure))
  (agent-q-registry-apply-levels))

(defun agent-q-registry-core-started (&optional _event)
  "Give the core, which has just started, what was defined before.
What it can't take is warned of; the rest counts."
  (unless agent-q-registry--started
    (dolist (name agent-q-registry--removed)
      (agent-q-registry--try (format "The tool %s can't be removed" name)
                             #'agent-q-core-unregister-tool name))
    (maphash (lambda (name tool)
               (agent-q-registry--try (format "The tool %s can't be used" name)
                                      #'agent-q-registry--define tool))
             agent-q-registry--own)
    (setq agent-q-registry--started t))
  (agent-q-registry--try "`agent-q-tool-levels' is not in force"
                         #'agent-q-registry-apply-levels))

(defun agent-q-registry--try (trouble function &rest arguments)
  "Call FUNCTION with ARGUMENTS; warn of TROUBLE when it signals an error."
  (condition-case failure
      (apply function arguments)
    (error (display-warning
            'agent-q (format "%s: %s" trouble (error-message-string failure))))))

(defun agent-q-registry-apply-levels ()
  "Apply `agent-q-tool-levels', if there is a core."
  (when (and agent-q-registry--started
             (not (equal agent-q-registry--levels agent-q-tool-levels)))
    (let ((levels (agent-q-json-empty-object)))
      (pcase-dolist (`(,name . ,level) (reverse agent-q-tool-levels))
        (puthash name (agent-q-tool-level-name (agent-q-module-level level)) levels))
      (agent-q-core-set-levels (agent-q-json-encode levels))
      (setq agent-q-registry--levels (copy-tree agent-q-tool-levels)))))

(defvar agent-q-registry--unguarded nil
  "The value of `agent-q-tool-levels' that was looked at last, and what was found.")

(defun agent-q-registry-unguarded ()
  "Return the names of the dangerous tools that run unasked.
These are those with a lower level in `agent-q-tool-levels'."
  (unless (equal (car agent-q-registry--unguarded) agent-q-tool-levels)
    (setq agent-q-registry--unguarded
          (cons (copy-tree agent-q-tool-levels)
                ;; What is no level is not in force, and was warned of.
                (condition-case nil
                    (agent-q-registry--find-unguarded)
                  (agent-q-error nil)))))
  (cdr agent-q-registry--unguarded))

(defun agent-q-registry--find-unguarded ()
  "Compute the value of `agent-q-registry-unguarded' again."
  (let ((names nil))
    (pcase-dolist (`(,name . ,_) (seq-uniq agent-q-tool-levels
                                           (lambda (a b) (equal (car a) (car b)))))
      (let ((tool (agent-q-get-tool name)))
        (and tool
             (eq :dangerous (or (agent-q-tool-own-level tool) :dangerous))
             (not (eq :dangerous (agent-q-tool-safety-level tool)))
             (push name names))))
    (nreverse names)))

(defun agent-q-registry-number (tool)
  "Return the number that the core knows the handler of TOOL by."
  (or (agent-q-tool-number tool)
      (let ((number (cl-incf agent-q-registry--last-number)))
        (puthash number tool agent-q-registry--handlers)
        (setf (agent-q-tool-number tool) number))))

(defun agent-q-registry-handler-tool (number)
  "Return the tool whose handler the core knows by NUMBER, or nil."
  (gethash number agent-q-registry--handlers))

(defun agent-q-registry--define (tool)
  "Register TOOL with the core."
  (agent-q-core-define-tool
   (agent-q-json-encode
    `(:name ,(agent-q-tool-name tool)
      :description ,(agent-q-tool-description tool)
      :categories ,(vconcat (mapcar (lambda (category)
                                      (substring (symbol-name category) 1))
                                    (agent-q-tool-categories tool)))
      :handler ,(agent-q-registry-number tool)
      :level ,(agent-q-tool-level-name (agent-q-tool-own-level tool))
      ,@(pcase (agent-q-tool-origin tool)
          (`(image ,name) (list :image name)))
      ,@(agent-q-registry--shape tool)))))

(defun agent-q-registry--shape (tool)
  "Return what TOOL's arguments look like, as a property list for the core."
  (if (agent-q-tool-from-schema tool)
      (list :schema (agent-q-tool-schema tool))
    (list :parameters
          (vconcat
           (mapcar (lambda (parameter)
                     (let ((json (agent-q-tool-parameters-schema parameter)))
                       (puthash "name" (plist-get parameter :name) json)
                       json))
                   (agent-q-tool-parameters tool)))
          :required (vconcat (agent-q-tool-required tool)))))

;;;; Registering

(defconst agent-q-registry--longest-description 2048
  "Most characters of a description that the hosts of other agents pass on.")

(defconst agent-q-registry--hosts-name "mcp__agent-q__%s"
  "How hosts of other agents call a tool; they take 64 characters.")

(defun agent-q-registry--warn (tool)
  "Warn of what hosts of other agents make of TOOL."
  (let* ((name (agent-q-tool-name tool))
         (hosts-name (format agent-q-registry--hosts-name name))
         (length (length (agent-q-tool-description tool))))
    (when (> (length hosts-name) 64)
      (display-warning
       'agent-q (format "Other agents may not be able to call the tool %s: their hosts call it %s, \
and take no more than 64 characters.  Give it a name of at most %d"
                        name hosts-name (- 64 (- (length hosts-name) (length name))))))
    (when (> length agent-q-registry--longest-description)
      (display-warning
       'agent-q (format "The description of the tool %s has %d characters; the hosts of other agents \
cut it off after %d.  Say first what it is for, and less in all"
                        name length agent-q-registry--longest-description)))))

;;;###autoload
(defun agent-q-register-tool (registry tool)
  "Put TOOL into REGISTRY, which is `agent-q-registry', and return TOOL.
A tool that had the same name is replaced.  Before the core is loaded, TOOL
is kept until it is."
  (unless (eq registry agent-q-registry)
    (signal 'agent-q-error (list "The registry has to be `agent-q-registry'")))
  (unless (agent-q-tool-p tool)
    (agent-q-json-invalid-tool "Not a tool: %S" tool))
  (let ((name (agent-q-tool-name tool)))
    (if (eq (agent-q-tool-origin tool) 'built-in)
        (progn (agent-q-registry-ensure)
               (agent-q-core-register-builtin name)
               (remhash name agent-q-registry--own))
      ;; The core looks closer at a schema, so it comes first.
      (when agent-q-registry--started
        (agent-q-registry--define tool))
      (agent-q-registry--warn tool)
      (puthash name tool agent-q-registry--own))
    (setq agent-q-registry--removed (delete name agent-q-registry--removed)))
  tool)

;;;###autoload
(defun agent-q-unregister-tool (name)
  "Remove the tool NAME; return t if there was one.
Before the core is loaded, the built-in tools are not known; one that is
called NAME is removed when it is."
  (agent-q-json-expect #'stringp name "The name of a tool" "a string")
  (let ((own (gethash name agent-q-registry--own)))
    (remhash name agent-q-registry--own)
    (cl-pushnew name agent-q-registry--removed :test #'equal)
    (if agent-q-registry--started
        (agent-q-core-unregister-tool name)
      (and own t))))

;;;###autoload
(defun agent-q-register-builtin-tools ()
  "Register the built-in tools that were removed or never registered.
Tools that took the place of one stay.  Return how many tools the registry
has then."
  (agent-q-registry-ensure)
  (agent-q-core-register-builtin nil)
  (setq agent-q-registry--removed nil)
  (length (agent-q-core-tools)))

;;;; Looking up

;;;###autoload
(defun agent-q-get-tool (name)
  "Return the registered tool NAME, or nil."
  (or (gethash name agent-q-registry--own)
      (progn
        (agent-q-registry-ensure)
        (let ((found (agent-q-core-tool name)))
          (and found (agent-q-registry--tool found))))))

(defun agent-q-registry-called (event)
  "Return the tool that EVENT, about a call, is about.
Libraries may have other tools of the same name, so the handler decides.  An
effect of code that runs is as a tool here."
  (let ((number (plist-get event :handler))
        (name (plist-get event :tool)))
    (cond ((and number (agent-q-registry-handler-tool number)))
          ((agent-q-registry-effect-p name) (agent-q-registry--effect name))
          (t (agent-q-get-tool name)))))

(defun agent-q-registry-about-image-p (event)
  "Whether the tool that EVENT is about may be about the chat's image.
Programs and servers are not."
  (let ((tool (agent-q-registry-called event)))
    (or (null tool)
        (not (eq 'built-in (agent-q-tool-origin tool)))
        (and (seq-intersection (agent-q-tool-categories tool)
                               '(:introspection :execution :debugger :history))
             t))))

;;;###autoload
(defun agent-q-list-registered-tools ()
  "Return the names of all registered tools in order of registration."
  (agent-q-registry-ensure)
  (mapcar (lambda (tool) (plist-get tool :name)) (agent-q-core-tools)))

;;;###autoload
(cl-defun agent-q-get-tools (&key max-safety-level categories)
  "Return the registered tools in order of registration.
With MAX-SAFETY-LEVEL, only those at that level or below it; with CATEGORIES,
a list of keywords or plain symbols, only those that have one of them.  A
category that no registered tool has is an `agent-q-error'."
  (agent-q-json-expect #'proper-list-p categories ":categories" "a list of keywords")
  (agent-q-registry-ensure)
  (let* ((tools (mapcar #'agent-q-registry--tool (agent-q-core-tools)))
         (categories (agent-q-registry--categories categories tools)))
    (when max-safety-level
      (let ((harmless-enough (agent-q-registry--levels-up-to max-safety-level)))
        (setq tools (seq-filter (lambda (tool)
                                  (memq (agent-q-tool-safety-level tool) harmless-enough))
                                tools))))
    (when categories
      (setq tools (seq-filter (lambda (tool)
                                (seq-intersection categories (agent-q-tool-categories tool)))
                              tools)))
    tools))

(defun agent-q-registry--categories (categories tools)
  "Return CATEGORIES as keywords, each of which one of TOOLS has to have."
  (let ((known (and categories
                    (seq-uniq (seq-mapcat #'agent-q-tool-categories tools)))))
    (mapcar (lambda (category)
              (let ((keyword (agent-q-tool-category category)))
                (unless (memq keyword known)
                  (signal 'agent-q-error
                          (list (format "No tool has the category %S; there are %s"
                                        category
                                        (mapconcat #'symbol-name
                                                   (sort known #'string-lessp) ", ")))))
                keyword))
            categories)))

(defun agent-q-registry--levels-up-to (level)
  "Return the safety levels up to LEVEL."
  (seq-take agent-q-tool-level-names
            (1+ (seq-position agent-q-tool-level-names (agent-q-module-level level)))))

(defun agent-q-registry--tool (description)
  "Return the tool that DESCRIPTION, a property list of the core's, is about."
  (let ((name (plist-get description :name)))
    (or (gethash name agent-q-registry--own)
        (gethash name agent-q-registry--builtin)
        (puthash name (agent-q-registry--make-builtin description)
                 agent-q-registry--builtin))))

(defun agent-q-registry--make-builtin (description)
  "Return the tool of the core that DESCRIPTION is about."
  (let* ((name (plist-get description :name))
         (schema (agent-q-json-parse (plist-get description :schema))))
    (agent-q-tool-make
     :name name
     :description (plist-get description :description)
     :parameters (agent-q-tool-parameters-of-schema schema)
     :required (append (gethash "required" schema) nil)
     :own-level (agent-q-module-level (intern (plist-get description :own-level)))
     :categories (mapcar (lambda (category) (intern (concat ":" category)))
                         (plist-get description :categories))
     :handler (lambda (arguments) (funcall agent-q-registry-run-function name arguments))
     :schema schema
     :origin 'built-in)))

;;;; Effects

(defconst agent-q-registry-effects
  '("effect/write_file" "effect/delete_file" "effect/rename_file"
    "effect/make_directory" "effect/change_attributes" "effect/run_program"
    "effect/connect" "effect/listen" "effect/load_file" "effect/exit_lisp"
    "effect/save_image" "effect/stop_thread" "effect/foreign_code"
    "effect/redefine" "effect/set_environment" "effect/take_over"
    "effect/read_private" "effect/read_secret" "effect/write_to_client"
    "effect/outlive" "effect/run_form")
  "What rules and approval handlers call the effects that code is asked about.")

(defun agent-q-registry-effect-p (name)
  "Whether NAME, where tools have theirs, is that of an effect."
  (string-prefix-p "effect/" name))

(defun agent-q-registry-effect-words (name)
  "Return NAME, that of an effect, as words, such as \"delete file\"."
  (string-replace "_" " " (string-remove-prefix "effect/" name)))

(defun agent-q-registry--effect (name)
  "Return what approval handlers get for the effect NAME in place of a tool."
  (let* ((text (lambda (name description)
                 (list :name name :type :string :description description)))
         (parameters
          (agent-q-tool-parameters-checked
           name
           (list (funcall text "file" "The file, absolute")
                 (funcall text "files" "Several files, absolute, one a line")
                 (funcall text "target" "What it acts on, unless that is a file")
                 (funcall text "program" "The real name of the program that it runs")
                 (funcall text "directory" "The folder that the program runs in")
                 (funcall text "function" "The program's innermost function that is at it")
                 (funcall text "form" "The form that runs")
                 (funcall text "thread" "The thread that runs it")
                 (funcall text "backtrace" "The frames, one a line")))))
    (agent-q-tool-make
     :name name
     :description (concat "Code that runs in the image is about to do this: "
                          (agent-q-registry-effect-words name))
     :parameters parameters
     :own-level :dangerous
     :schema (agent-q-tool-parameters-object-schema parameters nil)
     :handler (lambda (_arguments)
                (signal 'agent-q-error (list (concat name " is not a tool that can be called")))))))

;;;; What a chat offers

(defun agent-q-registry-selection ()
  "Return `agent-q-offered-tools' as the core takes it: a value to make JSON of."
  (pcase agent-q-offered-tools
    ('nil (if agent-q-verify-changes "usual" "usual_unverified"))
    ((or 'all 'none) (symbol-name agent-q-offered-tools))
    ((pred listp) `((chosen . ,(agent-q-registry--chosen agent-q-offered-tools))))
    (other (agent-q-registry--not-selectable other))))

(defun agent-q-registry--chosen (items)
  "Return ITEMS, the list in `agent-q-offered-tools', as an alist for the core."
  (let ((names nil) (categories nil) (level nil))
    (dolist (item items)
      (pcase item
        ((pred stringp) (push item names))
        (`(:max-safety-level ,wanted)
         (setq level (and wanted
                          (agent-q-tool-level-name (agent-q-module-level wanted)))))
        ((pred keywordp) (push (substring (symbol-name item) 1) categories))
        (_ (agent-q-registry--not-selectable item))))
    `((names . ,(vconcat names))
      (categories . ,(vconcat categories))
      (max_level . ,(or level :null)))))

(defun agent-q-registry--not-selectable (item)
  "Signal that `agent-q-offered-tools' can't hold ITEM."
  (signal 'agent-q-error (list (format "`agent-q-offered-tools' can't hold %S" item))))

(defun agent-q-registry-offered ()
  "Return the names of the tools that chats offer, by `agent-q-offered-tools'."
  (agent-q-registry-ensure)
  (agent-q-core-offered-tools (agent-q-json-serialize (agent-q-registry-selection))))

(add-hook 'agent-q-module-levels-hook #'agent-q-registry-apply-levels)
(agent-q-events-subscribe :core-started #'agent-q-registry-core-started)
;; Something else may have started the core.
(when (agent-q-events-running-p)
  (agent-q-registry-core-started))

(provide 'agent-q-registry)
;;; agent-q-registry.el ends here
